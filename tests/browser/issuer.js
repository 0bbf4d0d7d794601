// A small OpenID Connect issuer: one person, who agrees at once. It checks what a real one checks.

import { createHash, createSign, generateKeyPairSync, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";

const base64url = (text) => Buffer.from(text).toString("base64url");

export class Issuer {
  /** `claims` go into every token; `lasts` is how long it says that tokens last. */
  static async start({ claims = {}, clientId = "dashboard", lasts = 3600, isOpaque = false } = {}) {
    const issuer = new Issuer();
    Object.assign(issuer, { claims, clientId, lasts, isOpaque, codes: new Map(), asked: [], refusal: "" });
    issuer.keys = generateKeyPairSync("rsa", { modulusLength: 2048 });
    issuer.server = createServer((request, response) => issuer.answer(request, response));
    issuer.server.listen(0, "127.0.0.1");
    await once(issuer.server, "listening");
    issuer.url = `http://127.0.0.1:${issuer.server.address().port}`;
    return issuer;
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }

  /** What a codeQ server needs to know. */
  config() {
    return {
      producerAuthProvider: "jwks",
      producerAuthConfig: { jwksUrl: `${this.url}/jwks`, issuer: this.url, audience: "codeq" },
      allowProducerAsWorker: true,
      env: "dev",
      dashboard: { oidc: { issuer: this.url, clientId: this.clientId, scopes: "openid codeq:admin" } },
    };
  }

  token(more = {}) {
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: this.url, aud: "codeq", sub: "ada", iat: now, exp: now + 3600, ...this.claims, ...more };
    const head = base64url(JSON.stringify({ alg: "RS256", typ: "JWT", kid: "k" }));
    const text = `${head}.${base64url(JSON.stringify(claims))}`;
    return `${text}.${createSign("RSA-SHA256").update(text).sign(this.keys.privateKey).toString("base64url")}`;
  }

  async answer(request, response) {
    const url = new URL(request.url, this.url);
    const json = (status, body) =>
      response
        .writeHead(status, { "content-type": "application/json", "access-control-allow-origin": "*" })
        .end(JSON.stringify(body));
    if (url.pathname === "/jwks") {
      return json(200, { keys: [{ ...this.keys.publicKey.export({ format: "jwk" }), kid: "k", alg: "RS256", use: "sig" }] });
    }
    if (url.pathname === "/.well-known/openid-configuration") {
      return json(200, {
        issuer: this.url,
        authorization_endpoint: `${this.url}/authorize`,
        token_endpoint: `${this.url}/token`,
        jwks_uri: `${this.url}/jwks`,
      });
    }
    if (url.pathname === "/authorize") return this.authorize(url.searchParams, response);
    if (url.pathname === "/token") return this.exchange(await body(request), json);
    return json(404, {});
  }

  authorize(asked, response) {
    const back = new URL(asked.get("redirect_uri"));
    back.searchParams.set("state", asked.get("state"));
    if (this.refusal) back.searchParams.set("error", this.refusal);
    else {
      const code = randomUUID();
      this.codes.set(code, Object.fromEntries(asked));
      back.searchParams.set("code", code);
    }
    response.writeHead(302, { location: back.href }).end();
  }

  exchange(form, json) {
    this.asked.push(form.grant_type);
    const given = () => ({ token_type: "Bearer", expires_in: this.lasts, refresh_token: "again" });
    if (form.grant_type === "refresh_token") {
      if (form.refresh_token !== "again") return json(400, { error: "invalid_grant" });
      return json(200, { ...given(), access_token: this.token() });
    }
    const asked = this.codes.get(form.code);
    this.codes.delete(form.code);
    const challenge = createHash("sha256").update(form.code_verifier ?? "").digest("base64url");
    const isSound =
      asked &&
      asked.code_challenge_method === "S256" &&
      asked.code_challenge === challenge &&
      asked.redirect_uri === form.redirect_uri &&
      form.client_id === this.clientId;
    if (!isSound) return json(400, { error: "invalid_grant", error_description: "the code does not fit" });
    const id = this.token({ nonce: asked.nonce });
    return json(200, { ...given(), access_token: this.isOpaque ? "opaque" : this.token(), id_token: id });
  }
}

async function body(request) {
  let text = "";
  for await (const piece of request) text += piece;
  return Object.fromEntries(new URLSearchParams(text));
}
