import { createHash } from 'node:crypto';

/** Control, format (bidirectional ones among them) and line separating characters of Unicode. */
const STEERING = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Text of others on one line, with the characters that steer a terminal escaped as in JSON. */
export function printable(text: string): string {
  return text.replaceAll(STEERING, (found) =>
    Array.from({ length: found.length }, (_, i) => {
      return `\\u${found.charCodeAt(i).toString(16).padStart(4, '0')}`;
    }).join(''),
  );
}

/** Replaces what may be a credential. */
const REDACTED = '[redacted]';

export type Redact = (text: string) => string;

/** A key, then what is its value: `password=…`, `"token": "…"`, `Authorization: Bearer …`. */
const KEYED =
  /(?<![\w-])([\w-]*(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[-_]?key|private[-_]?key|access[-_]?key|authorization|credentials?|cookie|bearer|basic))(["']?\s*(?:(?:[:=]|\bis\b)\s*)?["']?(?:(?:bearer|basic)\s+)?)([^\s"',;)}\]]+)/gi;
const PEM = /-----BEGIN [^-]*-----.*?(?:-----END [^-]*-----|$)/gs;
/** The user of a URL, and a whole URL. */
const USER = /((?<![a-z0-9+.-])[a-z][a-z0-9+.-]*:\/\/)[^\s/@]+@/gi;
const URL_TEXT = /(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*:\/\/[^\s"']+/gi;
/** Words that stand after such a key in sentences, as in `the token is not valid`. */
const PLAIN =
  /^(?:is|was|are|has|of|for|the|a|an|not|no|in|on|by|at|to|file|expired|valid|invalid|missing)$/i;

/** Base64 with a slash, which would be two words. */
const BASE64 = /^(?=.*\d)(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9+][A-Za-z0-9+/]{19,}$/;

const WORD = /[^\s"'`,;=<>(){}[\]|]+/g;
const PART = /[^/:@]+/g;
/** After a word of a sentence. */
const ENDS: ReadonlySet<string> = new Set(['.', ':', '!', '?']);
/** From so many characters on, a word of letters and digits may be a key or a password. */
const SHORTEST_MIXED = 8;
/** … and a word of letters alone. */
const LONGEST_LETTERS = 40;

/** Words of letters and digits that are none. */
const HARMLESS = [
  // IPv4, IPv6 and CIDRs.
  /^\d{1,3}(?:\.\d{1,3}){3}(?:\/\d{1,2})?(?::\d{1,5})?$/,
  /^[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?:\/\d{1,3})?$/i,
  // Times and durations.
  /^\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-]\d\d:\d\d)?)?$/,
  /^\d+(?:\.\d+)?(?:ns|us|µs|ms|s|min|m|h|d)$/,
  // Versions, of programs and of APIs.
  /^v?\d+(?:\.\d+){1,3}(?:[-+~][a-z]{1,8}\.?\d{0,4})?$/,
  /^v\d+(?:(?:alpha|beta)\d+)?$/,
  // API groups.
  /^(?:(?:[a-z-]+|k8s|v\d+(?:(?:alpha|beta)\d+)?)\.)+[a-z]{2,}$/,
  // Codes of Node.js.
  /^ERR_[A-Z0-9_]+$/,
];

/**
 * Returns a function for text that others wrote (messages, lines of logs): it keeps words of
 * letters, numbers, addresses, times, versions and what is `known` (names of objects), and replaces
 * values of keys that name credentials, users and queries of URLs, PEM blocks, and words of letters
 * and digits. Linear in the length of the text.
 */
export function redactor(known: ReadonlySet<string>): Redact {
  const isHarmless = (word: string): boolean =>
    known.has(word) || HARMLESS.some((pattern) => pattern.test(word));
  const part = (text: string): string => (isHarmless(text) || !isSuspect(text) ? text : REDACTED);
  const word = (text: string): string => {
    let length = text.length;
    while (ENDS.has(text[length - 1] ?? '')) length--;
    const [bare, end] = [text.slice(0, length), text.slice(length)];
    if (BASE64.test(bare)) return `${REDACTED}${end}`;
    return isHarmless(bare) ? text : `${bare.replaceAll(PART, part)}${end}`;
  };
  return (text) =>
    text
      .replaceAll(PEM, REDACTED)
      .replaceAll(USER, `$1${REDACTED}@`)
      .replaceAll(URL_TEXT, (url) => url.replace(/\?.+/, `?${REDACTED}`))
      .replaceAll(KEYED, (whole, key: string, between: string, value: string) =>
        PLAIN.test(value) || between === '' ? whole : `${key}${between}${REDACTED}`,
      )
      .replaceAll(WORD, word);
}

function isSuspect(text: string): boolean {
  if (text.length >= LONGEST_LETTERS) return true;
  return text.length >= SHORTEST_MIXED && /\d/.test(text) && /\p{L}/u.test(text);
}

/**
 * The fields of a value that are taken: `plain`, a text without blanks, a number or a boolean;
 * `text`, which others wrote (see redactor); `digest`, the SHA-256 of a text; `whole`, any value
 * that a schema has checked, whose texts with blanks are as `text`; a list of such values; an
 * object by its keys; `each`, an object with any keys. Anything else is left out.
 */
export type KnownFields =
  | 'plain'
  | 'text'
  | 'digest'
  | 'whole'
  | readonly [KnownFields]
  | { readonly each: KnownFields }
  | { readonly [key: string]: KnownFields };

/** Fields that are taken as they are. */
export function plainFields<const Name extends string>(
  ...names: readonly Name[]
): Readonly<Record<Name, 'plain'>>;
export function plainFields(...names: readonly string[]): Readonly<Record<string, 'plain'>> {
  return Object.fromEntries(names.map((name) => [name, 'plain'] as const));
}

/** The known fields of a value; undefined if it has none, or another form. */
export function knownFields(value: unknown, fields: KnownFields, redact: Redact): unknown {
  if (typeof fields === 'string') return scalar(value, fields, redact);
  if (Array.isArray(fields)) {
    if (!Array.isArray(value)) return;
    return value.map((item) => knownFields(item, fields[0], redact)).filter((item) => item !== undefined);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
  const each = 'each' in fields ? fields.each : undefined;
  const entries = Object.entries(value).flatMap(([key, item]) => {
    const wanted =
      each ?? (Object.hasOwn(fields, key) ? (fields as Record<string, KnownFields>)[key] : undefined);
    const taken = wanted === undefined ? undefined : knownFields(item, wanted, redact);
    return taken === undefined ? [] : [[key, taken] as const];
  });
  return Object.fromEntries(entries);
}

function scalar(value: unknown, kind: 'plain' | 'text' | 'digest' | 'whole', redact: Redact): unknown {
  if (kind === 'whole') return whole(value, redact);
  if (typeof value === 'number' || typeof value === 'boolean' || value === null) return value;
  if (typeof value !== 'string') return;
  switch (kind) {
    case 'plain':
      return /\s/.test(value) ? redact(value) : value;
    case 'text':
      return redact(value);
    case 'digest':
      return value === '' ? '' : `sha256:${createHash('sha256').update(value).digest('hex')}`;
  }
}

function whole(value: unknown, redact: Redact): unknown {
  if (typeof value === 'string') return /\s/.test(value) ? redact(value) : value;
  if (Array.isArray(value)) return value.map((item) => whole(item, redact));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, whole(item, redact)]));
}
