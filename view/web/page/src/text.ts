// Formats figures, as nodeless top does.

import { t } from "./language";

const units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

function short(n: number): string {
  return n >= 100 || Number.isInteger(n) ? n.toFixed(0) : n.toFixed(1).replace(/\.0$/, "");
}

/** amount formats an amount of a resource: cores, binary multiples of bytes, or a count. */
export function amount(resource: string, n: number): string {
  if (resource === "cpu") return short(n / 1000);
  if (resource !== "memory" && resource !== "ephemeral-storage" && !resource.startsWith("hugepages-")) return String(n);
  let unit = 0;
  for (; n >= 1024 && unit < units.length - 1; unit++) n /= 1024;
  return short(n) + units[unit];
}

/** perHour formats a price in millionths of a dollar per hour, with four decimals on every screen. */
export const perHour = (micros: number): string => dollars(micros, 4);

/** perMonth formats the same price per month. */
export const perMonth = (micros: number): string => dollars(micros * hoursPerMonth, 0);

/** money formats a sum in dollars with the decimals of prices. */
export const money = (sum: number): string => dollars(sum * 1e6, 4);

/** dollars formats millionths of a dollar with commas between thousands. What rounds to zero has no sign. */
export function dollars(micros: number, decimals: number): string {
  const text = Math.abs(micros / 1e6).toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return (micros < 0 && /[1-9]/.test(text) ? "−$" : "$") + text;
}

const hoursPerMonth = 730;

/** age formats how long ago something was; both arguments are in seconds since 1970. */
export function age(now: number, then: number): string {
  if (!then) return "-";
  const s = Math.max(0, Math.round(now - then));
  if (s < 120) return `${s}s`;
  if (s < 7200) return `${Math.floor(s / 60)}m`;
  if (s < 172800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

/** clock formats a time in milliseconds since 1970 as the time of day, with the date if that is not today. */
export function clock(ms: number): string {
  const d = new Date(ms);
  const time = d.toLocaleTimeString("en-GB");
  return d.toDateString() === new Date().toDateString() ? time : `${d.toLocaleDateString("en-CA")} ${time}`;
}

export const plural = (n: number, noun: string, nouns = noun + "s"): string => t(`${n.toLocaleString("en-US")} ${n === 1 ? noun : nouns}`);

/** span formats a duration in seconds, in its two largest units. */
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

/** natural returns a key that sorts numbers by value: ip-10-0-9-1 before ip-10-0-10-1. It is computed once; a collator would parse digits in each comparison. */
export const natural = (text: string): string => text.replace(/\d+/g, (digits) => digits.padStart(12, "0"));
