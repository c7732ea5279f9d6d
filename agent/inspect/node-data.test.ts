import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { NodeQuestion } from '../../apis/node-question.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { nodeData } from './node-data.ts';

describe('what a node knows', () => {
  let stateDir: string;
  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'nodewall-inspect-'));
  });
  afterEach(() => rm(stateDir, { recursive: true }));

  const ask = (about: NodeQuestion['about'], query = '', config = DEFAULT_CONFIG) =>
    nodeData({ about, query }, { stateDir, config, metrics: null, flows: null });

  it('has records, filtered, and no more than are asked for', async () => {
    const lines = [80, 443, 80].map((dstPort, i) => ({
      time: `2026-01-01T00:00:0${i}Z`,
      node: 'n',
      dstPort,
    }));
    await writeFile(join(stateDir, 'records.jsonl'), lines.map((one) => `${JSON.stringify(one)}\n`).join(''));
    assert.deepEqual(JSON.parse(await ask('records')).records, lines);
    const { records, isCut } = JSON.parse(await ask('records', 'port=80&lines=1'));
    assert.deepEqual([records, isCut], [[lines[2]], true]);
    assert.deepEqual(JSON.parse(await ask('records', 'src=10.0.0.0/8')).records, []);
  });

  it('refuses parameters that are wrong', async () => {
    for (const query of ['port=x', 'lines=-1', 'since=never', 'prot=80', 'audit=yes'])
      await assert.rejects(
        ask('records', query),
        (error) => error instanceof CommandError && error.status === EXIT.usage,
        query,
      );
  });

  it('says why it has none', async () => {
    const config = { ...DEFAULT_CONFIG, log: { ...DEFAULT_CONFIG.log, file: 'stdout' } };
    await assert.rejects(ask('records', '', config), /log\.file is stdout/);
    await assert.rejects(
      ask('counters'),
      /nothing is enforced: the feature gate is off, or no agent has run/,
    );
    await assert.rejects(ask('metrics'), /without --metrics-listen/);
    assert.deepEqual(JSON.parse(await ask('names')), { saved: null, names: [] });
  });
});
