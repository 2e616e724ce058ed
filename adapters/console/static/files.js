// Files of the console: put up as soon as they are added, so that a message names them only once the bot has them.
import { element } from "./trace.js";

const MOST = 10;
const SIDE = 2048;
const size = (bytes) => (bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1000))} kB` : `${(bytes / 1e6).toFixed(1)} MB`);
const address = (file) => `/console/media/${file.digest}`;

// What a message shows of its files.
export function pictures(files) {
  return element("div", { class: "files" }, ...files.map((file) => {
    if (file.kind === "image") return element("a", { href: address(file), target: "_blank", rel: "noopener" }, element("img", { src: address(file), alt: file.name, loading: "lazy" }));
    if (file.kind === "audio" || file.kind === "video") return element(file.kind, { src: address(file), controls: true, preload: "none", title: file.name });
    return element("a", { class: "file", href: address(file), download: file.name }, `${file.name} · ${size(file.size)}`);
  }));
}

// The files of the message being written.
export class Attachments {
  constructor(list, { changed, problem }) {
    Object.assign(this, { list, changed, problem, limit: 1048576, items: [] });
  }

  // Waits for what is on its way; tells whether all of it arrived.
  async settled() {
    const waited = [...this.items];
    await Promise.all(waited.map((item) => item.done));
    return waited.every((item) => item.file || item.removed);
  }

  get files() { return this.items.filter((item) => item.file).map((item) => item.file); }

  take() {
    const files = this.files;
    this.items = [];
    this.show();
    return files;
  }

  restore(files) {
    this.items = files.map((file) => ({ name: file.name, file }));
    this.show();
  }

  add(chosen) {
    for (const file of chosen) {
      if (this.items.length >= MOST) { this.problem(`One message takes ${MOST} files.`); break; }
      const item = { name: file.name || "pasted", file: null };
      this.items.push(item);
      item.done = this.upload(item, file);
    }
    this.show();
  }

  async upload(item, chosen) {
    try {
      const file = await fitting(chosen, this.limit);
      if (file.size > this.limit) throw new Error(`it has ${size(file.size)}, up to ${size(this.limit)} are taken`);
      const answer = await fetch(`/console/media?name=${encodeURIComponent(item.name)}`, { method: "POST", body: file, headers: { "Content-Type": file.type || "application/octet-stream" } });
      const told = await answer.json().catch(() => ({}));
      if (!answer.ok) throw new Error(told.error ?? `the bot answered ${answer.status}`);
      item.file = told;
    } catch (error) {
      this.items = this.items.filter((other) => other !== item);
      this.problem(`${item.name} was not added: ${error.message}`);
    }
    this.show();
  }

  show() {
    this.list.hidden = !this.items.length;
    this.list.replaceChildren(...this.items.map((item) => {
      const remove = element("button", { type: "button", "aria-label": `Remove ${item.name}` }, "×");
      remove.addEventListener("click", () => { item.removed = true; this.items = this.items.filter((other) => other !== item); this.show(); });
      const picture = item.file?.kind === "image" ? element("img", { src: address(item.file), alt: "" }) : null;
      return element("li", { class: item.file ? "" : "busy" }, picture, element("span", { class: "name" }, item.file ? item.name : `${item.name} …`), remove);
    }));
    this.changed();
  }
}

// A picture that is too large, as those of cameras are, is drawn smaller; whatever can't be drawn stays as it is.
async function fitting(file, limit) {
  if (file.size <= limit || !/^image\/(png|jpeg|webp|bmp|avif)$/.test(file.type)) return file;
  const picture = await createImageBitmap(file);
  const scale = Math.min(1, SIDE / Math.max(picture.width, picture.height));
  const canvas = element("canvas", { width: Math.round(picture.width * scale), height: Math.round(picture.height * scale) });
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  for (const quality of [0.9, 0.75, 0.5]) {
    const smaller = await new Promise((done) => canvas.toBlob(done, "image/jpeg", quality));
    if (smaller && smaller.size <= limit) return smaller;
  }
  return file;
}
