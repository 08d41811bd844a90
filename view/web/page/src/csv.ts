// Tables as CSV files for spreadsheets (RFC 4180).

/** cell quotes a value if necessary. A text that a spreadsheet would run as a formula is prefixed with ', as OWASP advises ("CSV Injection"). */
export function cell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const safe = /^\s*[=+\-@＝＋－＠]/.test(value) || /^[\t\r\n]/.test(value) ? "'" + value : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export const csv = (rows: (string | number)[][]): string => rows.map((r) => r.map(cell).join(",") + "\r\n").join("");

/** save makes the browser save a text as a file. */
export function save(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser may not have started to read it
}
