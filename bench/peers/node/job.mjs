/** What is enqueued everywhere: about 300 bytes of JSON. */
export const job = (number) => ({
  id: number.toString(16).padStart(16, "0"),
  command: "email.send",
  to: `user-${String(number).padStart(8, "0")}@example.com`,
  template: "welcome",
  pad: "x".repeat(178),
});
