import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import os from 'node:os';
import { promisify } from 'node:util';
import type { JsonObject, Nftables } from 'nftables-napi';
import type { Config } from '../../apis/config.ts';
import { CONFIG_FIELDS } from '../../apis/shown-fields.ts';
import { FAMILIES, type Family } from '../../lib/net/address.ts';
import { VERSION } from '../../lib/process/version.ts';
import { addToList } from '../../lib/sharing/lists.ts';
import { knownFields, redactor } from '../../lib/sharing/safe-text.ts';
import { loadAddon } from '../run/with-kernel.ts';

/** Facts of a machine that a maintainer needs besides nodewall's rules. */
interface MachineFacts {
  /** ISO 8601, by the machine's own clock. */
  readonly time: string;
  readonly version: string;
  readonly nodejs: string;
  /** As `uname -r`. */
  readonly kernel: string;
  readonly architecture: string;
  /** The machine's, in seconds. */
  readonly uptime: number;
  /** Bytes. */
  readonly memory: { readonly total: number; readonly free: number; readonly process: number };
  /** See CONFIG_FIELDS. */
  readonly configuration: unknown;
  readonly otherChains: OtherChains;
  /** Tables of iptables-legacy and ip6tables-legacy that the kernel has. */
  readonly legacyTables: readonly string[];
  /** Prometheus' text format; null: the process has none. */
  readonly metrics: string | null;
}

/** Base chains of nftables that are not nodewall's. */
interface OtherChains {
  /** At most `MOST_CHAINS`. */
  readonly chains: readonly OtherChain[];
  /** Why they cannot be listed; null: they are. */
  readonly problem: string | null;
}

interface OtherChain {
  readonly family: string;
  readonly table: string;
  readonly chain: string;
  readonly type: string;
  readonly hook: string;
  readonly priority: number;
  /** The verdict on packets that no rule of it decides. */
  readonly policy: string;
}

const MOST_CHAINS = 200;

/** Reads the kernel and files of the system; changes nothing. */
export async function machineFacts(
  config: Config,
  metrics: (() => Promise<string>) | null,
): Promise<MachineFacts> {
  return {
    time: new Date().toISOString(),
    version: VERSION,
    nodejs: process.version,
    kernel: os.release(),
    architecture: os.arch(),
    uptime: Math.round(os.uptime()),
    memory: { total: os.totalmem(), free: os.freemem(), process: process.memoryUsage.rss() },
    configuration: knownFields(config, CONFIG_FIELDS, redactor(new Set())),
    otherChains: await otherChains(),
    legacyTables: await legacyTables(),
    metrics: (await metrics?.()) ?? null,
  };
}

async function otherChains(): Promise<OtherChains> {
  try {
    const found = (await listChains()).map(toChain).filter((one) => one !== null);
    return { chains: found.slice(0, MOST_CHAINS), problem: null };
  } catch (error) {
    return { chains: [], problem: (error as Error).message.split('\n', 1)[0] ?? '' };
  }
}

async function listChains(): Promise<JsonObject[]> {
  const { Nftables } = await loadAddon();
  const nft = new Nftables();
  try {
    return (await nft.list('chains')).map(({ chain }) => Object(chain));
  } finally {
    await nft.close();
  }
}

/**
 * Whether the kernel has rules of a kube-proxy, by nftables or either iptables; null: not known.
 */
export async function hasKubeProxy(): Promise<boolean | null> {
  try {
    if ((await listChains()).some(({ table, name }) => table === 'kube-proxy' || name === PROXY_CHAIN))
      return true;
    const tables = await legacyTables();
    const texts = await Promise.all(
      LEGACY.filter((command) => tables.includes(`${command} nat`)).map((command) =>
        savedRules(`${command}-legacy-save`, 'nat'),
      ),
    );
    return texts.some((text) => text.includes(`:${PROXY_CHAIN} `));
  } catch {
    return null;
  }
}

const PROXY_CHAIN = 'KUBE-SERVICES';

/** Null: no base chain, or one of nodewall's. */
function toChain({ family, table, name, type, hook, prio, policy }: JsonObject): OtherChain | null {
  if (typeof hook !== 'string' || table === OWN_TABLE) return null;
  return {
    family: String(family),
    table: String(table),
    chain: String(name),
    type: String(type),
    hook,
    priority: Number(prio),
    policy: String(policy ?? 'accept'),
  };
}

/** `iptables TABLE` and `ip6tables TABLE` of iptables-legacy, as far as the kernel shows them. */
export async function legacyTables(): Promise<string[]> {
  const files = ['ip_tables_names', 'ip6_tables_names'];
  const texts = await Promise.all(files.map((file) => readFile(`/proc/net/${file}`, 'utf8').catch(() => '')));
  return texts.flatMap((text, i) =>
    text
      .split('\n')
      .filter((name) => name !== '')
      .map((name) => `${i === 0 ? 'iptables' : 'ip6tables'} ${name}`),
  );
}

/**
 * Those of the tables that have rules of others or a base chain that drops; also those that cannot
 * be read.
 */
export async function otherLegacyTables(
  tables: readonly string[],
  saved: typeof savedRules = savedRules,
): Promise<string[]> {
  const found = tables.map(async (name) => {
    const [command, table = ''] = name.split(' ');
    const text = await saved(`${command}-legacy-save`, table);
    return text === '' || text.split('\n').some((line) => OF_OTHERS.test(line)) ? [name] : [];
  });
  return (await Promise.all(found)).flat();
}

/** A line that iptables-save prints: but of nodewall's chains. */
const OF_OTHERS = /^-A (?!.*\bNODEWALL-)|^:\S+ DROP /;

export const OWN_TABLE = 'nodewall';
const LEGACY = ['iptables', 'ip6tables'] as const;

export interface WantedRules {
  /** Whether a base chain makes its table worth reading: its type, hook and priority. */
  readonly isIn: (chain: {
    readonly type: unknown;
    readonly hook: unknown;
    readonly prio: number;
  }) => boolean;
  /** Tests a line of nft's text, without its comment. */
  readonly nft: Pick<RegExp, 'test'>;
  /** The tables of iptables-legacy, and a line of what iptables-legacy-save prints. */
  readonly legacyTables: readonly string[];
  readonly legacy: Pick<RegExp, 'test'>;
  /** Text of nft for rules that it cannot print, and iptables can; absent: none. */
  readonly unprinted?: RegExp;
  /** Chains whose rules are left out; absent: none. */
  readonly but?: RegExp;
}

/** Lists chains, and runs commands that read sets of others. */
export type TableReader = Pick<Nftables, 'list' | 'run'>;

/** By a process of its own for each command that reads sets of others. */
export function tableReader(nft: Nftables): TableReader {
  return {
    list: (what) => nft.list(what),
    async run(command) {
      const { runApart } = await import('../apply/netlink/nft-apart.ts');
      return runApart(command);
    },
  };
}

/** A table of others that may have such rules. */
export interface OtherTable {
  /** As `ip nat`, `iptables-legacy nat`. */
  readonly name: string;
  readonly families: readonly Family[];
  /** Its base chains that make it worth reading. */
  readonly chains: readonly string[];
  readonly syntax: 'nft' | 'iptables';
  readonly text: string;
}

const FAMILIES_OF: Readonly<Record<string, readonly Family[]>> = { ip: [4], ip6: [6] };

/**
 * The tables of others, of nftables and of either iptables, that such rules could be in. A table
 * that nft cannot print whole is there twice, also as iptables prints it.
 */
export async function otherTables(
  nft: TableReader,
  legacyTables: readonly string[],
  wanted: Pick<WantedRules, 'isIn' | 'legacyTables' | 'unprinted'>,
  saved: typeof savedRules = savedRules,
): Promise<OtherTable[]> {
  const tables = new Map<string, string[]>();
  for (const { chain } of await nft.list('chains')) {
    // Lists of nft begin with its version.
    if (chain === undefined) continue;
    const { family, table, name, type, hook, prio } = Object(chain);
    if (table !== OWN_TABLE && wanted.isIn({ type, hook, prio: Number(prio) }))
      addToList(tables, `${family} ${table}`, String(name));
  }
  const found: OtherTable[] = [];
  for (const [name, chains] of tables) {
    const text = await nft.run(`list table ${name}`).catch((error: NodeJS.ErrnoException) => {
      // A table that is gone by now has no rules.
      if (error.code === 'ENOENT') return '';
      throw new Error(`${name}: ${error.message}`, { cause: error });
    });
    const [family = '', own = ''] = name.split(' ');
    const table = { name, families: FAMILIES_OF[family] ?? FAMILIES, chains };
    found.push({ ...table, syntax: 'nft', text });
    if (wanted.unprinted?.test(text) !== true) continue;
    const command = family === 'ip6' ? 'ip6tables' : 'iptables';
    found.push({ ...table, syntax: 'iptables', text: await saved(`${command}-nft-save`, own) });
  }
  for (const command of LEGACY)
    for (const table of wanted.legacyTables) {
      if (!legacyTables.includes(`${command} ${table}`)) continue;
      const text = await saved(`${command}-legacy-save`, table);
      const families = [command === 'iptables' ? 4 : 6] as const;
      // Both kinds of iptables name base chains as their hooks.
      const chains = ['PREROUTING'];
      found.push({ name: `${command}-legacy ${table}`, families, chains, syntax: 'iptables', text });
    }
  return found;
}

/** The tables that have such rules, with their number. */
export async function otherRules(
  nft: TableReader,
  legacyTables: readonly string[],
  wanted: WantedRules,
  saved: typeof savedRules = savedRules,
): Promise<string[]> {
  const found: string[] = [];
  for (const { name, syntax, text } of await otherTables(nft, legacyTables, wanted, saved)) {
    const rules = syntax === 'nft' ? nftRules(text, wanted) : iptablesRules(text, wanted);
    if (rules.length > 0) found.push(`${name} (${rules.length})`);
  }
  return found;
}

function nftRules(text: string, { nft, but }: WantedRules): string[] {
  let chain = '';
  return text.split('\n').filter((line) => {
    chain = /^\s*chain (\S+) \{/.exec(line)?.[1] ?? chain;
    return but?.test(chain) !== true && nft.test(withoutComment(line));
  });
}

function iptablesRules(text: string, { legacy, but }: WantedRules): string[] {
  return text
    .split('\n')
    .filter((line) => legacy.test(withoutComment(line)) && but?.test(line.split(' ')[1] ?? '') !== true);
}

/** Comments are quoted. */
function withoutComment(line: string): string {
  return line.replaceAll(/comment "[^"]*"/g, '');
}

/** The text that an iptables-save prints of a table; '' if the command is not there, or refuses. */
export async function savedRules(command: string, table: string): Promise<string> {
  try {
    return (await promisify(execFile)(command, ['-t', table], { timeout: 4_000 })).stdout;
  } catch {
    return '';
  }
}

/** The flowtables of the network namespace, as `inet TABLE NAME`. */
export async function flowtables(): Promise<string[]> {
  const { Nftables } = await loadAddon();
  const nft = new Nftables();
  try {
    const found = (await nft.list('flowtables')).flatMap(({ flowtable }) =>
      flowtable === undefined ? [] : [Object(flowtable)],
    );
    return found.map(({ family, table, name }) => `${family} ${table} ${name}`);
  } finally {
    await nft.close();
  }
}

/** Chains at these hooks come before connection tracking, if their priority is less than its. */
const HOOKS: ReadonlySet<unknown> = new Set(['prerouting', 'output']);
/** NF_IP_PRI_CONNTRACK of linux/netfilter_ipv4.h. */
const CONNTRACK = -200;

/** Rules that leave packets out of connection tracking. */
export const UNTRACKED_RULES: WantedRules = {
  isIn: ({ hook, prio }) => HOOKS.has(hook) && prio < CONNTRACK,
  nft: /(?:^|\s)notrack(?:\s|$)|\bxt target "(?:CT|NOTRACK)"/,
  legacyTables: ['raw'],
  legacy: /-j (?:CT --notrack|NOTRACK)\b/,
};

/** kube-proxy's chains and table: NodePort policies are made for these. */
const KUBE_PROXY =
  /^(?:KUBE-|service-|external-|nodeport|nat-(?:prerouting|output|postrouting)$|endpoint-|services|masquerading|mark-for-)/;

/**
 * Rules that give packets another destination before the filter: ports that a container runtime
 * publishes, host ports, redirections.
 */
export const DESTINATION_RULES: WantedRules = {
  isIn: ({ type, hook }) => type === 'nat' && hook === 'prerouting',
  nft: /\s(?:dnat|redirect)(?:\s|$)|\bxt target "(?:DNAT|REDIRECT)"/,
  legacyTables: ['nat'],
  legacy: /-j (?:DNAT|REDIRECT)\b/,
  but: KUBE_PROXY,
};

/** Rules that give packets another source when they leave: those of pods, above all. */
export const SOURCE_RULES: WantedRules = {
  isIn: ({ type, hook }) => type === 'nat' && hook === 'postrouting',
  nft: /\s(?:masquerade|snat)(?:\s|$)|\bxt target "(?:MASQUERADE|SNAT)"/,
  legacyTables: ['nat'],
  legacy: /-j (?:MASQUERADE|SNAT)\b/,
  but: KUBE_PROXY,
};

/** Rules whose packets the kernel drops while no program reads their queue. */
export const QUEUE_RULES: WantedRules = {
  isIn: ({ type }) => type !== 'nat',
  nft: /(?:^|\s)queue (?:to|num|flags)\b(?!.*\bbypass\b)/,
  unprinted: /xt target "NFQUEUE"/,
  legacyTables: ['raw', 'mangle', 'filter', 'security'],
  legacy: /-j NFQUEUE\b(?!.* --queue-bypass\b)/,
};
