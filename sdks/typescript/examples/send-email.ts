// Sends email over an HTTP mail service, tries again what it refuses for now, and gives up on what it refuses for good.
import { Client, defineTask, Fail, Retry, Worker } from "codeq-client";

interface Email {
  to: string;
  subject: string;
  text: string;
}

const sendEmail = defineTask<Email, { id: string }>("send_email", { maxAttempts: 8 });

const worker = new Worker(new Client());
worker.handle(sendEmail, async ({ id, payload, signal }) => {
  const response = await fetch(process.env.MAIL_API ?? "http://127.0.0.1:8025/messages", {
    method: "POST",
    // The same in every attempt, so that the service can drop what it has seen.
    headers: { "Content-Type": "application/json", "Idempotency-Key": id },
    body: JSON.stringify(payload),
    signal,
  });
  if (response.status === 429 || response.status >= 500) throw new Retry(`busy: ${response.status}`, { delay: "1m" });
  if (!response.ok) throw new Fail(`refused: ${response.status}`);
  return { id };
});
await worker.run();
