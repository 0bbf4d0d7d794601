"""Dramatiq on Redis, with the results that a caller could wait for."""

import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend


def connect(address: str, *layers: dramatiq.Middleware) -> tuple[RedisBroker, dramatiq.Actor]:
    broker = RedisBroker(url=f"redis://{address}/0")
    broker.add_middleware(Results(backend=RedisBackend(url=f"redis://{address}/0")))
    for layer in layers:
        broker.add_middleware(layer)
    return broker, dramatiq.actor(lambda _: {"ok": True}, actor_name="send", broker=broker, store_results=True)


def producer(address: str):
    _, send = connect(address)

    def enqueue(jobs):
        for job in jobs:
            send.send(job)

    return enqueue


class Counted(dramatiq.Middleware):
    """Counts what has been acknowledged, results included."""

    def __init__(self, finished) -> None:
        self.finished = finished

    def after_ack(self, _broker, _message) -> None:
        with self.finished.get_lock():
            self.finished.value += 1


def work(address: str, slots: int, finished) -> None:
    broker, _ = connect(address, Counted(finished))
    dramatiq.Worker(broker, worker_threads=slots).start()
    while True:
        time.sleep(1)
