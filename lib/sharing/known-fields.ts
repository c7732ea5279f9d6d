import { createHash } from 'node:crypto';
import type { Redact } from './redact.ts';

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
