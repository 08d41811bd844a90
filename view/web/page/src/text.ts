// Figures in words, as nodeless top writes them.

const units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

function short(n: number): string {
  return n >= 100 || Number.isInteger(n) ? n.toFixed(0) : n.toFixed(1).replace(/\.0$/, "");
}

/** amount is one of a resource: cores, binary multiples of bytes, or pieces. */
export function amount(resource: string, n: number): string {
  if (resource === "cpu") return short(n / 1000);
  if (resource !== "memory" && resource !== "ephemeral-storage" && !resource.startsWith("hugepages-")) return String(n);
  let unit = 0;
  for (; n >= 1024 && unit < units.length - 1; unit++) n /= 1024;
  return short(n) + units[unit];
}

/** perHour is a price given in millionths of a dollar an hour, with four decimals on every screen. */
export const perHour = (micros: number): string => dollars(micros, 4);

/** perMonth is what perHour comes to in a month. */
export const perMonth = (micros: number): string => dollars(micros * hoursPerMonth, 0);

function dollars(micros: number, decimals: number): string {
  return "$" + (micros / 1e6).toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

const hoursPerMonth = 730;

/** age is how long ago something was; both in seconds since 1970. */
export function age(now: number, then: number): string {
  if (!then) return "-";
  const s = Math.max(0, Math.round(now - then));
  if (s < 120) return `${s}s`;
  if (s < 7200) return `${Math.floor(s / 60)}m`;
  if (s < 172800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

/** clock is a time of day with its date if that is not today's; in milliseconds since 1970. */
export function clock(ms: number): string {
  const d = new Date(ms);
  const time = d.toLocaleTimeString("en-GB");
  return d.toDateString() === new Date().toDateString() ? time : `${d.toLocaleDateString("en-CA")} ${time}`;
}

export const plural = (n: number, noun: string, nouns = noun + "s"): string => `${n.toLocaleString("en-US")} ${n === 1 ? noun : nouns}`;

/** span is a length of time in seconds, to its two largest units. */
export function span(s: number): string {
  const parts: string[] = [];
  let left = Math.max(0, Math.round(s));
  for (const [unit, seconds] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]] as const) {
    const n = Math.floor(left / seconds);
    left -= n * seconds;
    if (n > 0) parts.push(n + unit);
  }
  return parts.slice(0, 2).join("") || "0s";
}

/** natural is what a text is ordered by as people count: ip-10-0-9-1 is before ip-10-0-10-1. It is made once; a collator would look at digits at each comparison. */
export const natural = (text: string): string => text.replace(/\d+/g, (digits) => digits.padStart(12, "0"));
