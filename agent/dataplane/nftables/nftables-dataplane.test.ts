import assert from 'node:assert/strict';
import type { NodeState } from '../../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../../apis/config.ts';
import type { Log } from '../../../lib/process/log.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { type FakeKernel, fakeKernel } from '../../../test/fake/fake-kernel.ts';
import { stateOf } from '../../../test/fake/node-state.ts';
import { Enforcer } from '../../apply/enforcer.ts';
import { envelopeOf } from '../../apply/envelope.ts';
import type { Kernel } from '../../apply/netlink/kernel.ts';
import type { DataplaneExtension, ExtendedRules, Running } from '../dataplane.ts';
import { nftablesDataplane } from './nftables-dataplane.ts';

const LOG = { info() {}, debug() {}, warn: assert.fail, error: assert.fail } as unknown as Log;

describe('the nftables dataplane', () => {
  let kernel: FakeKernel;
  let asked: string[];
  beforeEach(() => {
    [kernel, asked] = [fakeKernel(), []];
  });

  /** Notes which chains are read, as `name`. */
  const noted = (name: string): Kernel => ({
    ...kernel,
    transact: (commands) => kernel.transact(commands),
    snapshot: () => kernel.snapshot(),
    elements: (set) => kernel.elements(set),
    generation: () => kernel.generation(),
    chains(names) {
      asked.push(`${name}: ${names.join()}`);
      return kernel.chains(names);
    },
  });

  function run(extension: DataplaneExtension | null): Running {
    return nftablesDataplane(noted('kernel')).run({
      config: DEFAULT_CONFIG,
      log: LOG,
      digests: {},
      readings: { all() {}, some() {} },
      troubled: assert.fail,
      extension,
      enforcer: {
        clock: fakeClock(),
        lastGood: async () => null,
        events: { enforced() {}, failed: assert.fail, unrecorded: assert.fail, drifted: () => assert.fail() },
      },
    });
  }

  async function enforce({ enforcer }: Running, ...states: readonly NodeState[]): Promise<void> {
    for (const state of states) {
      enforcer.submit(envelopeOf(state));
      await enforcer.idle();
    }
  }

  it('ends what an extension of an earlier run steers before the first rules without it, and once', async () => {
    const running = run(null);
    await enforce(running, stateOf([]), stateOf([]));
    assert.equal(asked.filter((one) => one === 'kernel: egress-steer').length, 1);
    assert.equal(asked[0], 'kernel: egress-steer');
    assert.notEqual(kernel.table(), null);
    await running.enforcer.close();
  });

  it('has an extension enforce its rules, over the kernel as the extension has it', async () => {
    const given: ExtendedRules[] = [];
    const running = run({
      open: () => ({
        kernel: noted('extended'),
        quietSets: [],
        enforce(rules) {
          given.push(rules);
          return new Enforcer({
            ...rules.enforcer,
            reconciler: rules.timed(rules.rules),
            renderer: rules.render,
          });
        },
      }),
    });
    await enforce(running, stateOf([]));
    assert.equal(given.length, 1);
    assert.notEqual(kernel.table(), null);
    await given[0]?.rules.verify();
    assert.ok(asked.length > 0);
    assert.ok(
      asked.every((one) => one.startsWith('extended: ')),
      asked.join('\n'),
    );
    await running.enforcer.close();
  });
});
