"""Celery on Redis, with results, and acks after the work so that a killed worker loses nothing."""

from celery import Celery
from celery.signals import task_postrun


def connect(address: str) -> Celery:
    url = f"redis://{address}/0"
    app = Celery("peers", broker=url, backend=url)
    app.conf.update(task_acks_late=True, worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)

    @app.task(name="send")
    def send(_job):
        return {"ok": True}

    return app


def producer(address: str):
    app = connect(address)

    def enqueue(jobs):
        for job in jobs:
            app.send_task("send", (job,))

    return enqueue


def work(address: str, slots: int, finished) -> None:
    app = connect(address)

    @task_postrun.connect(weak=False)
    def count(**_) -> None:
        with finished.get_lock():
            finished.value += 1

    app.Worker(pool="threads", concurrency=slots, loglevel="ERROR", without_gossip=True, without_mingle=True).start()
