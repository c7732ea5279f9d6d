/** The finding about one thing that has to be right. */
export interface CheckLine {
  /** The thing that was checked, in a few words. */
  readonly check: string;
  readonly state: 'ok' | 'warning' | 'problem';
  readonly message: string;
  /** The next step; absent: nothing. */
  readonly next?: string;
}

const ORDER = { problem: 0, warning: 1, ok: 2 } as const satisfies Record<CheckLine['state'], number>;

export function ok(check: string, message: string): CheckLine {
  return { check, state: 'ok', message };
}

export function warning(check: string, message: string, next: string): CheckLine {
  return { check, state: 'warning', message, next };
}

export function problem(check: string, message: string, next: string): CheckLine {
  return { check, state: 'problem', message, next };
}

/** The next step where the kernel lets nobody but root ask. */
export const ROOT_NEEDED = 'run this as root, or with CAP_NET_ADMIN';

/** An error as a message: others have long texts of commands. */
export function firstLine(error: unknown): string {
  return (error as Error).message.split('\n', 1)[0] ?? '';
}

/** The worst first. */
export function worstFirst(lines: readonly CheckLine[]): readonly CheckLine[] {
  return lines.toSorted((a, b) => ORDER[a.state] - ORDER[b.state]);
}

/** The first by name, as in `a, b, c and 7 more`. */
export function firstNames(names: readonly string[], most = 3): string {
  const left = names.length - most;
  return `${names.toSorted().slice(0, most).join(', ')}${left > 0 ? ` and ${left} more` : ''}`;
}

/** Whether a version such as `5.10.0-amd64` is at least MAJOR.MINOR; false if it is no version. */
export function isAtLeast(version: string, major: number, minor: number): boolean {
  const [, first, second] = /^v?(\d+)\.(\d+)/.exec(version) ?? [];
  if (first === undefined || second === undefined) return false;
  return Number(first) > major || (Number(first) === major && Number(second) >= minor);
}
