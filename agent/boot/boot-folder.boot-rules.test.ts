import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger } from 'winston';
import { emptyNodeState, type NodeState } from '../../apis/compiled.ts';
import { closing, nodeState } from '../../test/fake/node-state.ts';
import { BootRules, removeBootFiles } from './boot-folder.ts';

describe('the rules at boot', () => {
  let stateDir: string;
  let rules: BootRules;
  const log = createLogger({ silent: true });
  const open = (enabled = true): BootRules => new BootRules({ stateDir, enabled, log });
  const inForce = (state: NodeState, text: string): void =>
    rules.inForce(state, () => ({ 'rules.nft': text }));
  const saved = (): Promise<string | null> =>
    readFile(join(stateDir, 'boot/current/rules.nft'), 'utf8').catch(() => null);
  const [first, second] = [nodeState(closing('a', 80)), nodeState(closing('a', 81))];
  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'nodewall-boot-'));
    rules = open();
  });
  afterEach(() => rm(stateDir, { recursive: true, force: true }));

  it('are those confirmed last, whatever is in force', async () => {
    inForce(first, 'one');
    rules.confirmed(first);
    inForce(second, 'two');
    await rules.close();
    assert.equal(await saved(), 'one');
  });

  it('follow the members of the confirmed state', async () => {
    inForce(first, 'one');
    rules.confirmed(first);
    inForce(first, 'one, with another address');
    await rules.close();
    assert.equal(await saved(), 'one, with another address');
  });

  it('are none for a node without rules, and where they are turned off', async () => {
    for (const [enabled, state] of [
      [true, emptyNodeState('node-0')],
      [false, second],
    ] as const) {
      inForce(first, 'one');
      rules.confirmed(first);
      await rules.close();
      assert.equal(await saved(), 'one');
      rules = open(enabled);
      inForce(state, 'two');
      rules.confirmed(state);
      await rules.close();
      assert.equal(await saved(), null);
      rules = open();
    }
  });

  it('are not written once closed: a write that failed does not bring them back', async () => {
    await writeFile(join(stateDir, 'boot'), 'no folder');
    inForce(first, 'one');
    rules.confirmed(first);
    await rules.close();
    await rm(join(stateDir, 'boot'));
    await removeBootFiles(stateDir);
    await rules.close();
    assert.equal(await saved(), null);
  });
});
