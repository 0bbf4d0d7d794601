import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Issuer } from "./issuer.js";
import { openBrowser, openPage } from "./page.js";
import { Server } from "./server.js";

const ADMIN = { role: "ADMIN", tenantId: "acme", scope: "codeq:admin" };

let browser;
before(async () => (browser = await openBrowser()));
after(() => browser.close());

/** A server that trusts an issuer, and a page of it. */
async function stage(t, options = {}, hash = "/") {
  const issuer = await Issuer.start({ claims: ADMIN, ...options });
  t.after(() => issuer.stop());
  const server = await Server.serve(issuer.config());
  t.after(() => server.stop());
  const page = await openPage(browser);
  t.after(() => page.context().close());
  await page.goto(`${server.base}/ui#${hash}`);
  return { issuer, server, page };
}

const signIn = (page) => page.getByRole("button", { name: /^Sign in with 127\.0\.0\.1/ }).click();

const stored = (page) =>
  page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie]));

test("who signs in at the issuer comes back to the page that was asked for, and no token is stored", async (t) => {
  const { issuer, server, page } = await stage(t, {}, "/search?place=dead");
  const config = await (await fetch(`${server.base}/ui/config.json`)).json();
  assert.deepEqual(config.oidc, { issuer: issuer.url, clientId: "dashboard", scopes: "openid codeq:admin" });
  await signIn(page);
  await page.getByRole("heading", { name: "Search" }).waitFor();
  assert.equal(new URL(page.url()).search, "", "the code is not left in the address");
  assert.match(page.url(), /#\/search\?place=dead$/);
  assert.deepEqual(await stored(page), JSON.stringify([{}, {}, ""]));
  assert.deepEqual(
    page.troubles.filter((trouble) => !trouble.startsWith("foreign request")),
    [],
  );

  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("button", { name: /^Sign in with/ }).waitFor();
  await signIn(page);
  await page.getByRole("heading", { name: "Search" }).waitFor();
  await page.reload();
  await page.getByRole("button", { name: /^Sign in with/ }).waitFor();
  assert.deepEqual(issuer.asked, ["authorization_code", "authorization_code"]);
});

test("a token that ends is renewed, and an opaque access token gives way to the id token", async (t) => {
  const { issuer, page } = await stage(t, { lasts: 1 });
  await signIn(page);
  await page.getByRole("heading", { name: "No tasks yet" }).waitFor();
  // The page polls: it has renewed before the second round of requests.
  while (!issuer.asked.includes("refresh_token")) await page.waitForRequest(/\/v1\/codeq\//);
  assert.equal(await page.locator("#notice").isVisible(), false);

  const other = await stage(t, { isOpaque: true });
  await signIn(other.page);
  await other.page.getByRole("heading", { name: "No tasks yet" }).waitFor();
});

test("a refusal of the issuer, a forged answer and an issuer that is away are told", async (t) => {
  const { issuer, server, page } = await stage(t);
  issuer.refusal = "access_denied";
  await signIn(page);
  await page.getByRole("alert").getByText("The issuer refused: access_denied").waitFor();

  await page.goto(`${server.base}/ui?code=stolen&state=forged`);
  await page.getByRole("alert").getByText("belongs to another sign-in").waitFor();
  assert.deepEqual(issuer.asked, [], "a code of somebody else is not exchanged");
  assert.equal(new URL(page.url()).search, "");

  issuer.stop();
  await signIn(page);
  await page.getByRole("alert").getByText(/cannot be reached/).waitFor();
  await page.getByLabel("Token").waitFor();
});

test("without an issuer there is only the form, and the page may reach nobody else", async (t) => {
  const server = await Server.dev();
  t.after(() => server.stop());
  const response = await fetch(`${server.base}/ui`);
  assert.match(response.headers.get("content-security-policy"), /connect-src 'self';/);
  const config = await (await fetch(`${server.base}/ui/config.json`)).json();
  assert.equal(config.oidc, undefined);
});
