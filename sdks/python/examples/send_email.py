"""Sends email, tries again what the mail server refuses for now, and gives up on what it refuses for good.

codeq-worker examples.send_email:app
python -m examples.send_email ada@example.com
"""

import os
import smtplib
import sys
from dataclasses import dataclass
from email.message import EmailMessage

from codeq import App, Fail, Retry, SyncContext

app = App()


@dataclass
class Email:
    to: str
    subject: str
    text: str


@app.task("send_email", max_attempts=8)
def send_email(email: Email, ctx: SyncContext) -> dict[str, str]:
    message = EmailMessage()
    message["To"], message["From"], message["Subject"] = email.to, "codeq@example.com", email.subject
    # The same in every attempt, so that a mail server can drop what it has seen.
    message["Message-ID"] = f"<{ctx.id}@example.com>"
    message.set_content(email.text)
    try:
        with smtplib.SMTP(os.environ.get("SMTP_HOST", "127.0.0.1"), int(os.environ.get("SMTP_PORT", "25"))) as smtp:
            smtp.send_message(message)
    except smtplib.SMTPRecipientsRefused as error:
        raise refusal(*next(iter(error.recipients.values()))) from error
    except smtplib.SMTPResponseException as error:
        raise refusal(error.smtp_code, error.smtp_error) from error
    return {"message_id": message["Message-ID"]}


def refusal(code: int, text: bytes | str) -> Fail | Retry:
    """For good, or for now."""
    return Fail(f"refused: {text!r}") if code >= 500 else Retry(f"busy: {text!r}", delay=60)


if __name__ == "__main__":
    made = send_email.enqueue_sync(Email(sys.argv[1], "Hello", "It works."), key=f"welcome-{sys.argv[1]}")
    print(made.id)
