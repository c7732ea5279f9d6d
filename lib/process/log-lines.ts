/** Keys of nodewall's own log whose values are identifiers, beside time, level and message. */
const IDENTIFIERS: ReadonlySet<string> = new Set([
  ...['node', 'stage', 'policy', 'rule', 'revision', 'apiGroup', 'kind', 'resource', 'tier'],
  ...['version', 'dataplane', 'leader', 'identity', 'interface', 'group', 'gatewayNode'],
]);
const IDENTIFIER = /^[\w.:/-]{1,253}$/;
/** … and those whose values may be text that others wrote. */
const TEXTS: ReadonlySet<string> = new Set([
  ...['name', 'error', 'reason', 'why', 'problem', 'warning', 'cause', 'code', 'hint', 'advice'],
  ...['server', 'controller', 'listen', 'host', 'port', 'milliseconds', 'took', 'rules', 'objects'],
  ...['count', 'policies', 'chains', 'sets', 'lost', 'kept', 'interfaces', 'gates', 'enabled'],
  ...['probes', 'probe', 'gateway', 'path', 'event', 'action', 'ignored', 'skipped', 'removed'],
  ...['others', 'minute', 'monitor'],
]);

/** Takes what may be a credential out of a text (lib/sharing/redact.ts). */
type Redact = (text: string) => string;

/** Lines of Node.js when a process ends by an error. */
const FRAME = /^\s+at /;
const CRASH = /^(?:\w*Error(?: \[\w+\])?: |FATAL ERROR: |<--- |\[\d+:0x[0-9a-f]+\])/;

/**
 * The lines of a log of nodewall's that may be shown to maintainers: keys that are known, texts
 * without what may be a credential. Other programs' lines are left out; the last value says how many.
 */
export function logLines(text: string, redact: Redact): readonly unknown[] {
  let leftOut = 0;
  const lines: unknown[] = [];
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const fields = parsed(line);
    if (fields !== null) lines.push(known(fields, redact));
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

function known(fields: Readonly<Record<string, unknown>>, redact: Redact): object {
  const { timestamp, level, message, ...rest } = fields;
  const taken = Object.entries(rest).flatMap(([key, value]) => {
    const isIdentifier = IDENTIFIERS.has(key);
    if (!isIdentifier && !TEXTS.has(key)) return [];
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
