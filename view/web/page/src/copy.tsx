import { useState } from "preact/hooks";
import { t } from "./language";

/** Copy is a button that copies a text to the clipboard. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  return <button type="button" onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}>{t(copied ? "Copied" : label)}</button>;
}
