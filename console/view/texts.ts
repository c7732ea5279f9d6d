import { ipProtocolName } from '../../apis/ip-protocols.ts';

const NUMBER = new Intl.NumberFormat('en');
const RATE = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const TIME = new Intl.DateTimeFormat('en', {
  year: 'numeric',
  month: 'short',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
  timeZoneName: 'short',
});

/** As in `12,345`. */
export function numberText(value: number): string {
  return NUMBER.format(value);
}

/** As in `1 node`, `12,345 nodes`. */
export function countText(count: number, noun: string, nouns = `${noun}s`): string {
  return `${numberText(count)} ${count === 1 ? noun : nouns}`;
}

/** A number each second, as in `0`, `< 0.1`, `12.3`. */
export function rateText(perSecond: number): string {
  return perSecond > 0 && perSecond < 0.1 ? '< 0.1' : RATE.format(perSecond);
}

/** A time (ISO 8601) in the reader's time zone, to the second. */
export function timeText(time: string): string {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? time : TIME.format(date);
}

const UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
] as const;

/**
 * How long ago a time was, in its largest unit: `12 s`, `3 min`, `40 d`.
 *
 * @param now milliseconds since 1970; 0: not known, the time itself is shown
 */
export function ageText(time: string, now: number): string {
  const seconds = Math.max(0, Math.floor((now - Date.parse(time)) / 1000));
  if (now === 0 || Number.isNaN(seconds)) return timeText(time);
  const [unit, length] = UNITS.find(([, size]) => seconds >= size) ?? ['s', 1];
  return `${Math.floor(seconds / length)} ${unit}`;
}

/** The first names of a list, and how many more there are. */
export function namesText(names: readonly string[], count = names.length, most = 3): string {
  const shown = names.slice(0, most);
  const left = count - shown.length;
  return left > 0 ? `${shown.join(', ')} and ${numberText(left)} more` : shown.join(', ');
}

/** As in `tcp 22`. */
export function protocolAndPort({
  protocol,
  port,
}: {
  readonly protocol: string | number;
  readonly port?: number;
}): string {
  return `${ipProtocolName(protocol)}${port === undefined ? '' : ` ${port}`}`;
}
