import { render } from "preact";
import "./base/theme.css";
import "./frame/frame.css";
import "./blocks/blocks.css";
import { rememberScroll } from "./base/scroll";
import { apply } from "./base/theme";
import { App } from "./frame/app";

apply();
rememberScroll();
// In a frame that was made from a text (a notebook's cell) `#…` would lead to the page around it.
addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest('a[href^="#/"]') : null;
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  location.hash = link.getAttribute("href") ?? "";
});
const page = document.getElementById("page");
if (page) render(<App />, page);
