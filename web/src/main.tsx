import { render } from "preact";
import "./base/theme.css";
import "./frame/frame.css";
import "./blocks/blocks.css";
import { apply } from "./base/theme";
import { App } from "./frame/app";

apply();
const page = document.getElementById("page");
if (page) render(<App />, page);
