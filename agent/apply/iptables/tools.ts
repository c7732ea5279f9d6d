import { existsSync } from 'node:fs';
import { createExec, type Exec, ExecError, type ExecErrorCode, Ipset } from 'ipset-ts';
import type { Family } from '../../../lib/net/address.ts';
import { present } from '../../../lib/sharing/present.ts';

/**
 * The commands that this dataplane consists of. Each call is one process, without a shell, and
 * throws IptablesError or, for `ipset`, IpsetError.
 */
export interface IptablesTools {
  /** `auto`: the variant of the system's `iptables`. */
  readonly variant: IptablesVariant;
  /** All tables with their counters, as iptables-save or ip6tables-save prints them. */
  save(family: Family): Promise<string>;
  /**
   * Tables and chains that the text doesn't name stay as they are. Each COMMIT in the text is done
   * as a whole or not at all.
   */
  restore(family: Family, text: string): Promise<void>;
  readonly ipset: Ipset;
  /** Whether the kernel has this family now; absent: see NO_FAMILY. */
  has?(family: Family): boolean;
  /** The number of processes started until now. */
  processes(): number;
}

type IptablesVariant = 'auto' | 'nft' | 'legacy';

interface IptablesToolsOptions {
  /** Arguments before each command, for entering another network namespace. */
  readonly before?: readonly string[];
  /** Seconds to wait for the lock of xtables; 5 by default. */
  readonly wait?: number;
  /** Whether the kernel has this family; by default what it says itself. */
  readonly kernelHas?: (family: Family) => boolean;
}

/** Not so with ipv6.disable=1, or without the module. */
export function kernelHas(family: Family): boolean {
  return family === 4 || existsSync('/proc/self/net/if_inet6');
}

const NO_FAMILY = 'the kernel has no IPv6, so there are no packets of it and no rules';

/**
 * REFUSED: a line, or the commit of a table. LOCKED: another program holds the lock.
 * NO_KERNEL_SUPPORT: the kernel lacks the table. NO_FAMILY: it has no IPv6 at all.
 */
type IptablesErrorCode =
  | ExecErrorCode
  | 'NOT_PERMITTED'
  | 'LOCKED'
  | 'NO_KERNEL_SUPPORT'
  | 'NO_FAMILY'
  /** The table holds rules that only nft can express. */
  | 'INCOMPATIBLE'
  | 'REFUSED'
  | 'UNKNOWN';

export class IptablesError extends Error {
  override readonly name = 'IptablesError';
  readonly code: IptablesErrorCode;
  /** Null if the command did not exit by itself. */
  readonly exitCode: number | null;
  readonly stderr: string;
  /** The line of the restore that was refused, from 1: that of a rule, or that of the COMMIT. */
  readonly line: number | null;

  constructor(code: IptablesErrorCode, message: string, detail: IptablesErrorDetail = {}) {
    super(message, { cause: detail.cause });
    this.code = code;
    this.exitCode = detail.exitCode ?? null;
    this.stderr = detail.stderr ?? '';
    this.line = detail.line ?? null;
  }
}

interface IptablesErrorDetail {
  readonly exitCode?: number | null;
  readonly stderr?: string;
  readonly line?: number | null;
  readonly cause?: unknown;
}

/** Messages of iptables 1.8.9, both variants; the first match counts. */
const TEXTS: readonly (readonly [text: RegExp, code: IptablesErrorCode, advice: string])[] = [
  // Before LOCKED: a lock that can't be taken for lack of permission gives both messages.
  [
    // The last message is that of iptables-nft, which looks up the name of a set through a raw
    // socket.
    /Permission denied|Operation not permitted|must be root|Can't open socket to ipset/i,
    'NOT_PERMITTED',
    'it needs CAP_NET_ADMIN, CAP_NET_RAW and write access to /run/xtables.lock',
  ],
  [/holding the xtables lock|Can't lock /, 'LOCKED', 'another program changes iptables; it is tried again'],
  [
    /can't initialize ip6?tables table|unable to initialize table|Table does not exist/,
    'NO_KERNEL_SUPPORT',
    'the kernel lacks the table, or its module cannot be loaded',
  ],
];

export function commandOf(family: Family): 'iptables' | 'ip6tables' {
  return family === 4 ? 'iptables' : 'ip6tables';
}

/** `nft` and `legacy` have commands of their own on every system that has both. */
export function iptablesTools(
  variant: IptablesVariant,
  { before = [], wait = 5, kernelHas: has = kernelHas }: IptablesToolsOptions = {},
): IptablesTools {
  let processes = 0;
  const middle = variant === 'auto' ? '' : `-${variant}`;
  const counted = (command: string, ahead?: readonly string[]): Exec => {
    const [file, ...rest] = [...before, command];
    // The wait for the lock is not part of the command's own time.
    const exec = createExec({
      command: [file ?? command, ...rest],
      timeout: 30_000 + 1000 * wait,
      ...present({ ahead }),
    });
    return (...call) => {
      processes++;
      return exec(...call);
    };
  };
  const command = (family: Family, verb: 'save' | 'restore') => {
    const name = `${commandOf(family)}${middle}-${verb}`;
    return { name, exec: counted(name) };
  };
  const saves = { 4: command(4, 'save'), 6: command(6, 'save') };
  const restores = { 4: command(4, 'restore'), 6: command(6, 'restore') };
  return {
    variant,
    // The commands fail without the family, each with other words.
    save: async (family) => (has(family) ? readable(saves[family].name, await saved(saves[family])) : ''),
    async restore(family, text) {
      if (!has(family)) throw new IptablesError('NO_FAMILY', NO_FAMILY);
      // The nft variant has no lock, but accepts the option.
      await run(restores[family], ['--noflush', '--counters', '--wait', String(wait)], text);
    },
    // Started ahead, so that added members need not wait for a process to start.
    ipset: new Ipset(counted('ipset', ['-exist', 'restore'])),
    has,
    processes: () => processes,
  };
}

/**
 * iptables-nft-save prints this instead of the rules of a table into which nft has put rules of its
 * own, and exits with 0: the table would be taken for empty.
 */
const INCOMPATIBLE = /^# Table `(filter|nat)' is incompatible/m;

function readable(command: string, saved: string): string {
  const table = INCOMPATIBLE.exec(saved)?.[1];
  if (table === undefined) return saved;
  const family = command.startsWith('ip6') ? 'ip6' : 'ip';
  throw new IptablesError(
    'INCOMPATIBLE',
    `${command}: table ${table} contains rules that iptables cannot show; list them with nft list table ${family} ${table}, and move them to another table`,
  );
}

/**
 * The command reads the rules, then looks up the names of their sets by index. It exits with this
 * message if a set is destroyed in between, with its rule.
 */
const VANISHED = /Set with index \d+ in kernel doesn't exist/;
const ATTEMPTS = 5;

async function saved(command: Parameters<typeof run>[0], attempt = 1): Promise<string> {
  try {
    return await run(command, ['--counters']);
  } catch (error) {
    const isPassing = error instanceof IptablesError && VANISHED.test(error.stderr);
    if (!isPassing || attempt === ATTEMPTS) throw error;
    return await saved(command, attempt + 1);
  }
}

async function run(
  { name, exec }: { readonly name: string; readonly exec: Exec },
  args: readonly string[],
  stdin?: string,
): Promise<string> {
  const result = await exec(args, stdin === undefined ? {} : { stdin }).catch((cause: unknown) => {
    if (!(cause instanceof ExecError)) throw cause;
    throw new IptablesError(cause.code, cause.message, { cause });
  });
  if (result.code === 0) return result.stdout;
  throw toIptablesError(name, result.code, result.stderr);
}

/**
 * Converts the output on standard error to an error. The refused line is reported by the parser
 * (`Error occurred at line: 4`), by the kernel through the nft variant (`line 4: RULE_APPEND failed
 * (Invalid argument): rule in chain X`), and by commands on chains (`line 3 failed`). If the kernel
 * refuses a legacy table, only the line of its COMMIT is known.
 */
export function toIptablesError(command: string, exitCode: number | null, stderr: string): IptablesError {
  const [, parsed, failed] = /Error occurred at line: (\d+)|\bline (\d+)(?: failed|: )/.exec(stderr) ?? [];
  const line = parsed ?? failed;
  const [, code, advice] = TEXTS.find(([text]) => text.test(stderr)) ?? [
    null,
    line === undefined ? 'UNKNOWN' : 'REFUSED',
    null,
  ];
  const said = saidOf(stderr) || `exit code ${exitCode}`;
  return new IptablesError(code, `${command}: ${said}${advice === null ? '' : ` (${advice})`}`, {
    exitCode,
    stderr,
    line: line === undefined ? null : Number(line),
  });
}

/** The message in one line, without the parts that are the same every time. */
function saidOf(stderr: string): string {
  const lines = stderr
    .split('\n')
    .filter((line) => line !== '' && !/^(Try `|Error occurred at line)/.test(line));
  return lines
    .map((line) => line.replace(/^ip6?tables\S* v\S+ \(\w+\): /, '').trim())
    .join(' ')
    .trim();
}

export type Variant = 'nft' | 'legacy';

/**
 * The variant of the system's own `iptables`, or that of `iptables-nft` or `iptables-legacy`; null
 * if there is no such command. Throws ExecError.
 */
export async function installedVariant(of: 'auto' | Variant): Promise<Variant | null> {
  try {
    const command = of === 'auto' ? 'iptables' : `iptables-${of}`;
    const { code, stdout } = await createExec({ command: [command], timeout: 10_000 })(['--version']);
    return code === 0 ? variantOf(stdout) : null;
  } catch (error) {
    if (error instanceof ExecError && error.code === 'NO_COMMAND') return null;
    throw error;
  }
}

/**
 * iptables before 1.8 prints only its version; it is the variant that has been called legacy since.
 */
export function variantOf(version: string): Variant {
  return version.includes('(nf_tables)') ? 'nft' : 'legacy';
}

/**
 * The commands of a variant: those named for it, else the system's own if they are of that variant.
 * Null if it isn't installed. Throws ExecError.
 */
export async function variantTools(variant: Variant): Promise<IptablesTools | null> {
  for (const name of [variant, 'auto'] as const)
    if ((await installedVariant(name)) === variant) return iptablesTools(name);
  return null;
}
