import { setTimeout as pause } from 'node:timers/promises';
import { countsInForce } from '../agent/dataplane/open-dataplanes.ts';
import {
  Accounting,
  type CountedTable,
  NO_ACCOUNTS,
  type RuleTotals,
  type SavedAccounts,
} from '../agent/record/accounting.ts';
import { SPOOFED } from '../agent/render/anti-spoofing.ts';
import { agentLock } from '../agent/run/agent-lock.ts';
import { toNodeState } from '../agent/run/state-store.ts';
import { withKernel } from '../agent/run/with-kernel.ts';
import type { CompiledRule, NodeState } from '../apis/compiled.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { stateFile } from '../lib/process/state-file.ts';
import { loadConfig } from './load.ts';
import { json, print, table } from './output.ts';

interface RulesOptions {
  readonly stateDir: string;
  readonly config?: string;
  readonly policy?: string;
  readonly output: 'table' | 'json';
}

/** `nodewall rules`: the rules in force and their counters. */
export async function rulesCommand(options: RulesOptions): Promise<ExitStatus> {
  await loadConfig(options.config);
  const state = await readState(options.stateDir);
  const totals = await readTotals(options.stateDir);
  const rules = state.rules
    .filter(({ source }) => options.policy === undefined || source.policy === options.policy)
    .map((rule) => toRow(rule, totals.get(rule.id)));
  const spoofed = toCount(totals.get(SPOOFED));
  const dropped = `\nspoofed: ${spoofed.packets} packets dropped, ${spoofed.bytes} bytes, last ${lastText(spoofed)}\n`;
  if (options.output === 'json') await print(json({ node: state.node, rules, spoofed }));
  else if (rules.length === 0) await print(`No rule is in force on ${state.node}.\n`);
  else await print(`${toTable(rules)}${spoofed.packets === 0 ? '' : dropped}`);
  return EXIT.done;
}

type Count = Pick<RuleTotals, 'packets' | 'bytes' | 'lastHit'>;
type Row = ReturnType<typeof toRow>;

function toRow({ id, source, tier, action, mode, traffic }: CompiledRule, totals: RuleTotals | undefined) {
  const { direction, policy, apiGroup, rule, ruleIndex } = source;
  return {
    id,
    direction,
    tier,
    policy,
    apiGroup,
    rule,
    ruleIndex,
    action,
    mode,
    traffic,
    ...toCount(totals),
  };
}

function toCount({ packets, bytes, lastHit }: Count = { packets: 0, bytes: 0, lastHit: null }): Count {
  return { packets, bytes, lastHit };
}

function lastText({ lastHit }: Count): string {
  return lastHit === null ? 'never' : lastHit.replace(/\.\d+Z$/, 'Z');
}

function toTable(rules: readonly Row[]): string {
  const header = ['#', 'direction', 'tier', 'policy/rule', 'action', 'packets', 'bytes', 'last hit'];
  const rows = rules.map((row, i) => [
    String(i + 1),
    row.traffic === 'Host' ? row.direction : `${row.direction} ${row.traffic}`,
    row.tier,
    `${row.policy}/${row.rule}`,
    row.mode === 'Audit' ? `${row.action} (audit)` : row.action,
    String(row.packets),
    String(row.bytes),
    lastText(row),
  ]);
  return table(header, rows);
}

async function readState(stateDir: string): Promise<NodeState> {
  const text = await readFile(stateDir, 'node-state.jsonl');
  if (text !== null) return toNodeState(text);
  throw new CommandError(
    EXIT.invalid,
    `${stateDir} contains no state: start the agent (nodewall agent), or give its --state-dir`,
  );
}

/** The saved counters, and the kernel's since then. */
async function readTotals(stateDir: string): Promise<Map<string, RuleTotals>> {
  for (let attempt = 1; ; attempt++) {
    const text = await readFile(stateDir, 'counters.json');
    const saved: unknown = text === null ? NO_ACCOUNTS : JSON.parse(text);
    const accounts = new Accounting(saved);
    const found = await readKernel();
    // The rules have just changed: the agent is about to save the counters of the removed chains.
    const isStale = found !== null && !isCovered(accounts.save(), found);
    if (isStale && attempt < ATTEMPTS && (await agentLock(stateDir).holder()) !== null) {
      await pause(SAVED_WITHIN / ATTEMPTS);
      continue;
    }
    if (found !== null) accounts.read(found, new Date().toISOString());
    return accounts.totals();
  }
}

/** Milliseconds within which the agent saves its counters after a change of rules. */
const SAVED_WITHIN = 2_000;
const ATTEMPTS = 20;

function isCovered({ chains }: SavedAccounts, table: CountedTable): boolean {
  const names = new Set(table.chains.map(({ name, handle }) => `${handle} ${name}`));
  return chains.every(({ name, handle }) => names.has(`${handle} ${name}`));
}

async function readFile(stateDir: string, name: string): Promise<string | null> {
  try {
    return await stateFile(stateDir, name).read();
  } catch (error) {
    const { message, cause } = error as Error;
    const isRefused = (cause as NodeJS.ErrnoException | undefined)?.code === 'EACCES';
    throw new CommandError(
      isRefused ? EXIT.refused : EXIT.invalid,
      isRefused ? `${message}: this needs root` : message,
      { cause: error },
    );
  }
}

/** Reads the counters of whichever dataplane holds rules; this needs no configuration. */
async function readKernel(): Promise<CountedTable | null> {
  try {
    const found = await withKernel(countsInForce);
    if (found === null) {
      process.stderr.write('nodewall: the kernel has no rules; the counts are the last saved ones\n');
    }
    return found;
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    process.stderr.write(
      `nodewall: cannot read the kernel's counters; the counts are the last saved ones, up to 30 s old: ${error.message}\n`,
    );
    return null;
  }
}
