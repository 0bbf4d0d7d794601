// The shell: who is signed in, which page is shown, whether the server is there.

import { connection, forgetFailures, get, hasOwnToken, session, setToken, token } from "./api.js";
import { h, link, replace, setText } from "./dom.js";
import { startTheme } from "./theme.js";
import { overview } from "./views/overview.js";

const byId = (id) => document.getElementById(id);
const main = byId("main");

/** Pages that are not the first one are fetched when they are opened. */
const lazy = (file, name) => async (page) => (await import(`./views/${file}.js`))[name](page);

const PAGES = [
  { path: "", title: "Overview", view: overview, needsAdmin: true, isListed: true },
  { path: "queues", title: "Queue", view: lazy("queue", "queue"), needsAdmin: true },
  { path: "tasks", title: "Task", view: lazy("task", "task") },
  { path: "dead", title: "Dead letters", view: lazy("dead", "dead"), needsAdmin: true, isListed: true },
  { path: "failed", title: "Failed", view: lazy("dead", "failed"), needsAdmin: true, isListed: true },
  { path: "search", title: "Search", view: lazy("search", "search"), needsAdmin: true, isListed: true },
  { path: "workers", title: "Workers", view: lazy("workers", "workers"), needsAdmin: true, isListed: true },
  {
    path: "schedules",
    title: "Schedules",
    view: lazy("schedules", "schedules"),
    needsAdmin: true,
    isListed: true,
  },
  { path: "batches", title: "Batches", view: lazy("batches", "batches"), needsAdmin: true, isListed: true },
  { path: "live", title: "Live", view: lazy("tail", "tail"), isListed: true },
  {
    path: "webhooks",
    title: "Webhooks",
    view: lazy("webhooks", "webhooks"),
    needsAdmin: true,
    isListed: true,
  },
  { path: "audit", title: "Audit", view: lazy("audit", "audit"), needsAdmin: true, isListed: true },
];

/** Between two tries while the server is away. */
const AGAIN_MS = 1500;

let current = new AbortController();
let isFirst = true;

function place() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [first, ...rest] = path.split("/").map(decodeURIComponent);
  return { first, rest, search: new URLSearchParams(search) };
}

async function show() {
  current.abort();
  current = new AbortController();
  forgetFailures();
  const { signal } = current;
  const { first, rest, search } = place();
  const page = PAGES.find(({ path }) => path === first);
  mark(first);
  if (!token()) return signIn();
  document.title = page ? `${rest[0] ?? page.title} · codeQ` : "codeQ";
  if (!page) return replace(main, notFound());
  if (page.needsAdmin && !session.isAdmin) return replace(main, needsAdmin());
  const root = h("div", { class: `view view-${page.path || "overview"}` });
  replace(root, h("p", { class: "wait" }, "Loading…"));
  replace(main, root);
  if (!isFirst) main.focus({ preventScroll: true });
  if (!isFirst) scrollTo(0, 0);
  isFirst = false;
  try {
    await page.view({ root, rest, search, signal });
  } catch (error) {
    if (signal.aborted) return;
    replace(root, failure(error));
    if (error.isAway) setTimeout(() => signal.aborted || show(), AGAIN_MS);
  }
}

function mark(first) {
  for (const entry of byId("nav").querySelectorAll("a")) {
    const isCurrent = entry.dataset.path === (first === "queues" ? "" : first);
    if (isCurrent) entry.setAttribute("aria-current", "page");
    else entry.removeAttribute("aria-current");
  }
}

function notFound() {
  return h("div", { class: "empty" }, h("h1", {}, "There is no such page"), link("#/", "Go to the overview"));
}

function needsAdmin() {
  return h(
    "div",
    { class: "empty" },
    h("h1", {}, "This token does not have admin rights"),
    h(
      "p",
      {},
      "It lacks the scope codeq:admin (or the role ADMIN). Tasks can be opened by their id, and events can be watched.",
    ),
    h("p", {}, link("#/live", "Watch events")),
  );
}

function failure(error) {
  return h(
    "div",
    { class: "empty", role: "alert" },
    h("h1", {}, "This page could not be shown"),
    h("p", {}, error.message),
    error.requestId ? h("p", { class: "muted mono" }, `Request ${error.requestId}`) : null,
  );
}

async function signIn(refusal) {
  current.abort();
  current = new AbortController();
  const { signal } = current;
  byId("signout").hidden = true;
  document.title = "Sign in · codeQ";
  const { signin } = await import("./views/signin.js");
  if (signal.aborted) return;
  signin({ root: main, refusal, onToken: start });
}

/** Finds out what the token may do, then shows the page. */
async function start() {
  if (!token()) return show();
  try {
    await get("/admin/history?minutes=1&points=1");
    session.isAdmin = true;
  } catch (error) {
    if (error.status === 401) return undefined;
    if (error.isAway) return setTimeout(start, AGAIN_MS);
    session.isAdmin = false;
  }
  byId("signout").hidden = !hasOwnToken();
  tellAccess();
  return show();
}

/** Who may only look sees no button that would be refused. */
function tellAccess() {
  document.body.classList.toggle("read-only", session.isReadOnly);
  byId("access").hidden = !session.isReadOnly;
}

function sentence({ status, message, requestId }) {
  return status === 0 ? message : `The server answered “${message}” (request ${requestId ?? "unknown"}).`;
}

function watchConnection() {
  const state = byId("connection");
  const notice = byId("notice");
  const tell = (isThere, text) => {
    state.className = `connection ${isThere ? "there" : "away"}`;
    setText(state, isThere ? "Connected" : "Disconnected");
    notice.hidden = isThere;
    setText(notice, text);
  };
  connection.addEventListener("away", ({ detail }) => tell(false, `${sentence(detail)} Trying again…`));
  connection.addEventListener("back", () => tell(true, ""));
  connection.addEventListener("refused", ({ detail }) => signIn(detail));
  tell(true, "");
}

function listPages() {
  const entry = ({ path, title }) => h("li", {}, link(`#/${path}`, title, { "data-path": path }));
  replace(byId("nav"), PAGES.filter(({ isListed }) => isListed).map(entry));
}

async function readConfig() {
  const response = await fetch("/ui/config.json", { cache: "no-store" });
  const config = await response.json();
  session.devToken = config.devToken ?? "";
  session.version = config.version;
  session.oidc = config.oidc ?? null;
  setText(byId("foot"), `codeQ ${config.version}`);
  byId("foot").append(" · ", link("/docs", "API"), session.devToken ? " · development server" : "");
}

/** Takes up the sign-in that an issuer has answered; what went wrong, if it did. */
async function fromIssuer() {
  if (!new URLSearchParams(location.search).has("state")) return null;
  const { arrive, isAnswer } = await import("./oidc.js");
  return isAnswer() ? arrive().then(() => null, (error) => error) : null;
}

async function boot() {
  startTheme(byId("theme"));
  listPages();
  watchConnection();
  byId("signout").addEventListener("click", () => {
    setToken("");
    session.isAdmin = false;
    session.isReadOnly = false;
    tellAccess();
    start();
  });
  byId("jump").addEventListener("submit", (event) => {
    event.preventDefault();
    const id = byId("jump-id").value.trim();
    if (id) location.hash = `#/tasks/${encodeURIComponent(id)}`;
    byId("jump-id").value = "";
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input, textarea, select, dialog")) return;
    event.preventDefault();
    byId("jump-id").focus();
  });
  addEventListener("hashchange", show);
  await readConfig().catch(() => undefined);
  const refusal = await fromIssuer();
  if (refusal) await signIn(refusal);
  else await start();
}

boot();
