import { execFile } from 'node:child_process';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Config } from '../../apis/config.ts';
import { allFlows, FLOWS_LEFT_OUT } from '../../apis/node-flows.ts';
import type { NodeData } from '../../apis/node-question.ts';
import { LOG_FIELDS } from '../../apis/shown-fields.ts';
import { snapshotText } from '../../apis/wire.ts';
import { logLines, type SupportBundle } from '../../lib/process/bundle.ts';
import { redactor } from '../../lib/sharing/safe-text.ts';
import type { Variant } from '../apply/iptables/tools.ts';
import { holdingTools } from '../dataplane/iptables/port.ts';
import { nodeData } from '../inspect/node-data.ts';
import { readState } from '../inspect/saved-state.ts';
import { savedFlows } from '../run/flow-inventory.ts';
import { loadAddon } from '../run/with-kernel.ts';

interface MachineBundleOptions {
  readonly bundle: SupportBundle;
  readonly stateDir: string;
  readonly config: Config;
  /** Whether the agent's flow inventory is part of it. */
  readonly withFlows: boolean;
}

const FACTS = [
  'machine',
  'counters',
  'names',
  'interfaces',
  'records',
] as const satisfies readonly NodeData[];
const QUERIES = { records: 'lines=1000' } as const;
/** The unit of the Debian package (deploy/systemd/nodewall.service). */
const JOURNAL = ['--unit=nodewall', '--output=cat', '--lines=5000', '--no-pager', '--quiet'];
const JOURNAL_LIMITS = { timeout: 4_000, maxBuffer: 16 << 20 };
const TABLES = ['inet nodewall', 'arp nodewall'];
const VARIANTS = ['nft', 'legacy'] as const satisfies readonly Variant[];

/**
 * Collects what maintainers need to know of this machine: its rules as nft or iptables text, the
 * state in force, counters, records, names, interfaces, settings, kernel, the agent's log. What
 * cannot be had is named in the bundle. Rejects only if the bundle cannot be written.
 */
export async function collectMachine(options: MachineBundleOptions): Promise<void> {
  const { bundle, stateDir, config, withFlows } = options;
  const had = async (name: string, read: () => Promise<string>): Promise<void> => {
    let text: string;
    try {
      text = await read();
    } catch (error) {
      bundle.missing(name, (error as Error).message);
      return;
    }
    // Rules of another dataplane than the one in use.
    if (text !== '') await bundle.addText(name, text);
  };
  for (const about of FACTS) {
    const query = about === 'records' ? QUERIES.records : '';
    await had(`${about}.json`, () =>
      nodeData({ about, query }, { stateDir, config, metrics: null, flows: null }),
    );
  }
  if (withFlows) await had('flows.jsonl', () => flowsText(stateDir, config));
  else bundle.leftOut(...FLOWS_LEFT_OUT);
  await had('state.jsonl', async () => snapshotText()(await readState(stateDir)));
  await had('state-dir.jsonl', () => listing(stateDir));
  for (const table of TABLES) await had(`rules/${table.replace(' ', '-')}.nft`, () => nftText(table));
  for (const variant of VARIANTS) await had(`rules/iptables-${variant}.txt`, () => iptablesText(variant));
  await had('log.jsonl', journal);
}

/** First the part that all kinds of the saved inventory share, then each of them. */
async function flowsText(stateDir: string, config: Config): Promise<string> {
  const flows = await savedFlows(stateDir, config, { error: () => {} });
  if (flows === null) throw new Error('there is no flow inventory: no agent has saved one here');
  const { flows: kinds, ...rest } = await allFlows(async (query) =>
    JSON.parse(
      await nodeData({ about: 'flows', query: query.toString() }, { stateDir, config, metrics: null, flows }),
    ),
  );
  return [rest, ...kinds].map((one) => `${JSON.stringify(one)}\n`).join('');
}

/** Names, sizes, modes and times; not the contents. */
async function listing(stateDir: string): Promise<string> {
  const names = (await readdir(stateDir)).sort().slice(0, 1_000);
  const files = await Promise.all(
    names.map(async (name) => {
      const { size, mode, mtime } = await stat(join(stateDir, name));
      return { name, size, mode: (mode & 0o777).toString(8), modified: mtime.toISOString() };
    }),
  );
  return files.map((one) => `${JSON.stringify(one)}\n`).join('');
}

/** '' if there is no such table. */
async function nftText(table: string): Promise<string> {
  const { NftError } = await loadAddon();
  const { runApart } = await import('../apply/netlink/nft-apart.ts');
  try {
    return await runApart(`list table ${table}`, 'names');
  } catch (error) {
    if (error instanceof NftError && error.code === 'ENOENT') return '';
    throw error;
  }
}

/** nodewall's own rules and chains; '' if there are none. */
async function iptablesText(variant: Variant): Promise<string> {
  const tools = await holdingTools(variant);
  if (tools === null) return '';
  const saved = await Promise.all([tools.save(4), tools.save(6)]);
  const lines = saved.flatMap((text, i) => [
    i === 0 ? '# iptables' : '# ip6tables',
    ...text.split('\n').filter((line) => /^\*|NODEWALL-/.test(line)),
  ]);
  return lines.map((line) => `${line}\n`).join('');
}

async function journal(): Promise<string> {
  const { stdout } = await promisify(execFile)('journalctl', JOURNAL, JOURNAL_LIMITS);
  const lines = logLines(stdout, LOG_FIELDS, redactor(new Set()));
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}
