import { readFile } from 'node:fs/promises';
import os from 'node:os';
import type { JsonObject } from 'nftables-napi';
import type { Config } from '../../apis/config.ts';
import { CONFIG_FIELDS } from '../../apis/config-fields.ts';
import { VERSION } from '../../lib/process/version.ts';
import { knownFields } from '../../lib/sharing/known-fields.ts';
import { redactor } from '../../lib/sharing/redact.ts';
import { loadAddon } from '../run/with-kernel.ts';

/** Facts of a machine that a maintainer needs besides nodewall's rules. */
export interface MachineFacts {
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
export interface OtherChains {
  /** At most `MOST_CHAINS`. */
  readonly chains: readonly OtherChain[];
  /** Why they cannot be listed; null: they are. */
  readonly problem: string | null;
}

export interface OtherChain {
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
const OWN_TABLE = 'nodewall';

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
    const { Nftables } = await loadAddon();
    const nft = new Nftables();
    try {
      const found = (await nft.list('chains')).map(({ chain }) => toChain(Object(chain)));
      return { chains: found.filter((one) => one !== null).slice(0, MOST_CHAINS), problem: null };
    } finally {
      await nft.close();
    }
  } catch (error) {
    return { chains: [], problem: (error as Error).message.split('\n', 1)[0] ?? '' };
  }
}

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
