// The page in the reader's language. Texts are written in English, here and in the server; the server has a catalogue
// for each other language. view/language defines its forms, and translates by the same rules.

import { request } from "./request";

interface Form {
  parts: string[]; // the text between the gaps
  gaps: string[]; // their names
  to: string;
}

export const languages: Record<string, string> = { en: "English", ko: "한국어" };

const kept = "language"; // stored in this browser
const mostSaid = 10_000, longest = 4096; // longer texts are not our own, and would be slow to match

const whole = new Map<string, string>(), said = new Map<string, string>();
let forms: Form[] = [];

/** language is the chosen language, or the first supported one of the browser's languages. */
export const language: string = [localStorage.getItem(kept) ?? "", ...navigator.languages].map((l) => l.toLowerCase().split("-")[0]!).find((l) => l in languages) ?? "en";

/** choose switches the page to another language. */
export function choose(tag: string): void {
  localStorage.setItem(kept, tag);
  location.reload();
}

/** load reads the catalogue. Without it the page is in English. */
export async function load(): Promise<void> {
  if (language === "en") return;
  try {
    read((await (await request(`/api/language/${language}`)).json()) as Record<string, string>);
    document.documentElement.lang = language;
  } catch (e) {
    console.warn(`no catalogue for ${language}: ${String(e)}`);
  }
}

function read(entries: Record<string, string>): void {
  for (const [key, to] of Object.entries(entries)) {
    for (const from of new Set([key.replaceAll("(s)", ""), key.replaceAll("(s)", "s")])) {
      const pieces = from.split(/\{(.*?)\}/); // text, gap, text, …
      if (pieces.length === 1) whole.set(from, to);
      else forms.push({ parts: pieces.filter((_, i) => i % 2 === 0), gaps: pieces.filter((_, i) => i % 2 === 1), to });
    }
  }
  forms.sort((a, b) => rank(b) - rank(a) || (a.parts.join("\0") < b.parts.join("\0") ? -1 : 1));
}

/** t translates a text. A text that is not in the catalogue stays in English. */
export function t(text: string): string {
  if (whole.size === 0 || text === "" || text.length > longest) return text;
  let to = said.get(text);
  if (to === undefined) {
    if (said.size >= mostSaid) said.clear();
    said.set(text, (to = translate(text)));
  }
  return to;
}

const ofSentences = ["; ", " · ", " — "], separators = [...ofSentences, ": ", ". ", " → ", ", "];

function translate(text: string): string {
  const known = whole.get(text);
  if (known !== undefined) return known;
  for (const f of forms) {
    const filled = match(f, text);
    if (filled) return fill(f, filled);
  }
  for (const separator of separators) {
    const pieces = split(text, separator);
    if (pieces.length === 1) continue;
    const to = pieces.map((piece) => (piece.includes(" ") ? translate(piece) : piece)).join(separator); // a single word may be a name
    if (to !== text) return to;
  }
  return text;
}

/** split splits a text at separators outside brackets; for ": " only at the first. */
function split(text: string, separator: string): string[] {
  const out: string[] = [];
  let depth = 0, from = 0;
  for (let i = 0; i < text.length; i++) {
    if ("([{".includes(text[i]!)) depth++;
    else if (")]}".includes(text[i]!)) depth--;
    if (depth !== 0 || !text.startsWith(separator, i)) continue;
    out.push(text.slice(from, i));
    from = i + separator.length;
    i = from - 1;
    if (separator === ": ") break;
  }
  return [...out, text.slice(from)];
}

/** match returns the contents of the gaps; null if the text does not match the form. */
function match(f: Form, text: string): Map<string, string> | null {
  if (!text.startsWith(f.parts[0]!)) return null;
  let rest = text.slice(f.parts[0]!.length);
  const filled = new Map<string, string>();
  for (const [i, gap] of f.gaps.entries()) {
    const next = f.parts[i + 1]!;
    const end = rest === "" ? 0 : i + 1 < f.gaps.length ? rest.indexOf(next, 1) : rest.endsWith(next) ? rest.length - next.length : 0;
    if (end <= 0 || !holds(f, gap, rest.slice(0, end), next)) return null;
    if (i === 0 && f.parts[0] === "" && split(rest.slice(0, end), ": ").length > 1) return null; // the part before a colon is translated separately
    filled.set(gap, rest.slice(0, end));
    rest = rest.slice(end + next.length);
  }
  return filled;
}

const fewLetters = 10, fewWords = 4; // a form with few letters could match part of any sentence
const letters = (f: Form): number => f.parts.join("").length;

/** rank orders forms: a form that begins with text is tried before one that begins with a gap, unless it has few letters. */
const rank = (f: Form): number => letters(f) + (letters(f) >= fewLetters && f.parts[0] !== "" ? 1000 : 0);

/** holds reports whether a text may fill a gap before the next part: it is a single sentence; in a form with few letters, a name or number is a single word. */
function holds(f: Form, gap: string, text: string, next: string): boolean {
  if (gap === "n") return /^[\d,]+$/.test(text);
  if ((next.startsWith(")") && text.includes(")")) || ofSentences.some((s) => split(text, s).length > 1)) return false;
  if (letters(f) >= fewLetters) return true;
  return f.to.includes(`{say ${gap}}`) ? text.split(" ").length <= fewWords || /[:(]/.test(f.parts.join("")) : !text.includes(" ");
}

const fill = (f: Form, filled: Map<string, string>): string => f.to.replace(/\{(say )?(.*?)\}/g, (found, say, gap) => {
  const value = filled.get(gap);
  return value === undefined ? found : say ? translate(value) : value;
});
