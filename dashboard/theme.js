// Light or dark: the system's wish unless someone chose.

const KEY = "codeq-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

function chosen() {
  return localStorage.getItem(KEY);
}

function apply(button) {
  const theme = chosen() ?? (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  const other = theme === "dark" ? "light" : "dark";
  button.textContent = theme === "dark" ? "☀" : "☾";
  button.setAttribute("aria-label", `Switch to the ${other} theme`);
  button.title = `Switch to the ${other} theme`;
}

export function startTheme(button) {
  button.addEventListener("click", () => {
    const other = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem(KEY, other);
    apply(button);
  });
  dark.addEventListener("change", () => apply(button));
  apply(button);
}
