/** The kind of an error, for programs. See IpsetError. */
export type IpsetErrorCode = keyof typeof ADVICE;

/** Advice for people, by error. */
const ADVICE = {
  NOT_FOUND: 'create the set first, or list the existing sets',
  EXISTS:
    'choose another name, or swap with the set that has it; `exist` ignores a set with the same options',
  ENTRY_EXISTS: '`exist` updates the entry',
  NO_ENTRY: '`exist` ignores this',
  FULL: 'make a set with a larger maxelem, fill it, and swap the two',
  IN_USE: 'remove the rules and lists that name it; swap and flush work meanwhile',
  TYPE_MISMATCH: 'swap needs two sets of one type and family; a list:set cannot contain a list:set',
  NAME_TOO_LONG: 'a name has at most 31 bytes',
  OUT_OF_RANGE: 'check the range, prefix length or address; the set type cannot store it',
  NOT_ENABLED: 'create the set with timeout, counters, comment or skbinfo',
  SYNTAX: 'correct the value',
  NOT_PERMITTED: 'run as root or with CAP_NET_ADMIN in this network namespace',
  NO_KERNEL_SUPPORT: 'this kernel lacks the module or the revision; use another type of set',
  NO_COMMAND: 'install the package ipset, or give the command to createExec',
  TIMEOUT: 'the state is unknown now: list the sets, then retry',
  ABORTED: 'the state is unknown now: list the sets before the next change',
  OUTPUT_LIMIT: 'list a single set, or raise maxOutput',
  UNKNOWN: 'see stderr',
} as const;

/** The messages of ipset 7.17 and its library; the first match counts. */
const TEXTS: readonly (readonly [RegExp, IpsetErrorCode])[] = [
  [/setname '.*' is longer than/, 'NAME_TOO_LONG'],
  [/Operation not permitted/, 'NOT_PERMITTED'],
  [/set type not supported|You need to upgrade your|Cannot open session to kernel/, 'NO_KERNEL_SUPPORT'],
  [/does not exist/, 'NOT_FOUND'],
  [/set with the (same|new) name already exists/, 'EXISTS'],
  [/it's already added/, 'ENTRY_EXISTS'],
  [/it's not added|is not added to the set/, 'NO_ENTRY'],
  [/(Hash|Set) is full/, 'FULL'],
  [/it is in use by/, 'IN_USE'],
  [/their type does not match|with list:set type cannot be added/, 'TYPE_MISMATCH'],
  [/cannot be used: set was created without/, 'NOT_ENABLED'],
  [
    /out of the range of the set|exceeds the size limit|CIDR parameter .* is invalid|Null-valued element/,
    'OUT_OF_RANGE',
  ],
  [/Syntax error|Unknown argument|No command specified|Missing .*mandatory/, 'SYNTAX'],
];

/** The fields of an IpsetError besides its code and message. */
interface IpsetErrorDetail {
  readonly command?: readonly string[];
  readonly exitCode?: number | null;
  readonly stderr?: string;
  readonly line?: number | null;
  readonly operation?: number | null;
  readonly cause?: unknown;
}

/**
 * A command or value that ipset refused, or that was refused before ipset ran (then `command` is
 * null).
 *
 * SYNTAX: neither ipset nor the kernel tried it. NOT_FOUND and EXISTS concern sets, NO_ENTRY and
 * ENTRY_EXISTS entries.
 */
export class IpsetError extends Error {
  override readonly name = 'IpsetError';
  readonly code: IpsetErrorCode;
  /** The arguments of ipset. */
  readonly command: readonly string[] | null;
  /**
   * 1: refused by the kernel or the library; 2: bad arguments. Null if ipset did not end by itself.
   */
  readonly exitCode: number | null;
  /** ipset's whole standard error. */
  readonly stderr: string;
  /**
   * The refused line of a restore, from 1. Null if ipset names none, as for some wrong arguments.
   */
  readonly line: number | null;
  /** The index of the refused operation of a restore, from 0. */
  readonly operation: number | null;

  constructor(code: IpsetErrorCode, message: string, detail: IpsetErrorDetail = {}) {
    // A cause of this type already contains the advice.
    const advice = detail.cause instanceof IpsetError ? '' : ` (${ADVICE[code]})`;
    super(`${message}${advice}`, detail.cause === undefined ? {} : { cause: detail.cause });
    this.code = code;
    this.command = detail.command ?? null;
    this.exitCode = detail.exitCode ?? null;
    this.stderr = detail.stderr ?? '';
    this.line = detail.line ?? null;
    this.operation = detail.operation ?? null;
  }
}

/** The error for a value that is refused before ipset runs. */
export function syntaxError(message: string): IpsetError {
  return new IpsetError('SYNTAX', message);
}

/** Converts ipset's standard error to an IpsetError. */
export function toIpsetError(
  command: readonly string[],
  exitCode: number | null,
  stderr: string,
): IpsetError {
  const [, line] = /Error in line (\d+): /.exec(stderr) ?? [];
  const said = stderr.replace(/^ipset v\S+: /, '').replace(/^Error in line \d+: /, '');
  const [first = ''] = said.split('\n');
  const code = TEXTS.find(([text]) => text.test(stderr))?.[1] ?? 'UNKNOWN';
  const what = command.filter((argument) => !argument.startsWith('-')).slice(0, 2);
  return new IpsetError(code, `ipset ${what.join(' ')}: ${first || `exit code ${exitCode}`}`, {
    command,
    exitCode,
    stderr,
    line: line === undefined ? null : Number(line),
    operation: line === undefined ? null : Number(line) - 1,
  });
}
