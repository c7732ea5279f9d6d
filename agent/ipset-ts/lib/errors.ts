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
  readonly stderr?: string;
  readonly operation?: number | null;
  readonly cause?: unknown;
}

/**
 * A command that ipset refused, or that could not be run. SYNTAX: the kernel never saw it.
 * NOT_FOUND and EXISTS concern sets, NO_ENTRY and ENTRY_EXISTS entries.
 */
export class IpsetError extends Error {
  override readonly name = 'IpsetError';
  readonly code: IpsetErrorCode;
  /** ipset's whole standard error. */
  readonly stderr: string;
  /**
   * The index of the refused operation of a restore, from 0. Null if ipset names none, as for some
   * wrong arguments.
   */
  readonly operation: number | null;

  constructor(code: IpsetErrorCode, message: string, detail: IpsetErrorDetail = {}) {
    super(`${message} (${ADVICE[code]})`, detail.cause === undefined ? {} : { cause: detail.cause });
    this.code = code;
    this.stderr = detail.stderr ?? '';
    this.operation = detail.operation ?? null;
  }
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
    stderr,
    operation: line === undefined ? null : Number(line) - 1,
  });
}
