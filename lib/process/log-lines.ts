/** Keys of a log, beside time, level and message, whose values may be shown. */
export interface LogFields {
  readonly identifiers: ReadonlySet<string>;
  /** Their values may be text that others wrote. */
  readonly texts: ReadonlySet<string>;
}

const IDENTIFIER = /^[\w.:/-]{1,253}$/;

/** Takes what may be a credential out of a text (lib/sharing/redact.ts). */
type Redact = (text: string) => string;

/** Lines of Node.js when a process ends by an error. */
const FRAME = /^\s+at /;
const CRASH = /^(?:\w*Error(?: \[\w+\])?: |FATAL ERROR: |<--- |\[\d+:0x[0-9a-f]+\])/;

/**
 * The lines of a log (JSON, or a crash of Node.js) that may be shown to others: keys that are
 * known, texts without what may be a credential. Other lines are left out; the last value says how
 * many.
 */
export function logLines(text: string, fields: LogFields, redact: Redact): readonly unknown[] {
  let leftOut = 0;
  const lines: unknown[] = [];
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const entry = parsed(line);
    if (entry !== null) lines.push(known(entry, fields, redact));
    else if (FRAME.test(line) || CRASH.test(line)) lines.push({ message: redact(line) });
    else leftOut++;
  }
  return leftOut === 0 ? lines : [...lines, { linesLeftOut: leftOut }];
}

function parsed(line: string): Readonly<Record<string, unknown>> | null {
  if (!line.startsWith('{')) return null;
  try {
    return JSON.parse(line) as Readonly<Record<string, unknown>>;
  } catch {
    return null;
  }
}

function known(
  entry: Readonly<Record<string, unknown>>,
  { identifiers, texts }: LogFields,
  redact: Redact,
): object {
  const { timestamp, level, message, ...rest } = entry;
  const taken = Object.entries(rest).flatMap(([key, value]) => {
    const isIdentifier = identifiers.has(key);
    if (!isIdentifier && !texts.has(key)) return [];
    if (typeof value === 'number' || typeof value === 'boolean') return [[key, value]];
    if (typeof value !== 'string') return [];
    return [[key, isIdentifier && IDENTIFIER.test(value) ? value : redact(value)]];
  });
  return {
    ...(typeof timestamp === 'string' ? { timestamp: redact(timestamp) } : {}),
    ...(typeof level === 'string' ? { level: redact(level) } : {}),
    ...(typeof message === 'string' ? { message: redact(message) } : {}),
    ...Object.fromEntries(taken),
  };
}
