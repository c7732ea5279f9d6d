import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Compiled, CompiledPolicy, CompiledRule } from '../../apis/compiled.ts';
import { type NodeReport, SILENCE } from '../../apis/node-report.ts';
import { formatRevision } from '../../controller/publish/resume-log.ts';
import { Realization, realizationKey } from '../../controller/status/realization.ts';
import type { Progress } from '../../controller/status/status.ts';
import { WATCHED } from '../../controller/watch/cluster/resources.ts';
import { check } from './runs.ts';

const NODES = ['a', 'b', 'c', 'd'];
const POLICIES = ['p', 'q', 'r'];

const span = fc.uniqueArray(fc.constantFrom(...NODES));
const STEP = fc.oneof(
  fc.record({
    what: fc.constant('policy' as const),
    name: fc.constantFrom(...POLICIES),
    span,
    isEdit: fc.boolean(),
  }),
  fc.record({ what: fc.constant('deleted' as const), name: fc.constantFrom(...POLICIES) }),
  fc.record({
    what: fc.constant('report' as const),
    node: fc.constantFrom(...NODES),
    behind: fc.option(fc.nat({ max: 3 })),
    /** Of this controller, or of another one. */
    epoch: fc.constantFrom('e', 'x'),
    off: fc.boolean(),
    failing: fc.uniqueArray(fc.constantFrom(...POLICIES), { maxLength: 2 }),
  }),
  fc.record({ what: fc.constant('time' as const), milliseconds: fc.constantFrom(1000, SILENCE) }),
);
type Step = typeof STEP extends fc.Arbitrary<infer T> ? T : never;

/** Every resource has the same version. */
function revision(epoch: string, number: number): string {
  return formatRevision({ epoch, number, position: WATCHED.map(() => number) });
}

/** The changing state, and the calls that follow from each step. */
class World {
  readonly policies = new Map<string, CompiledPolicy>();
  /** Of each policy: the resource version with which its generation began. */
  readonly versions = new Map<string, number>();
  time = 0;
  #position = 0;
  #generation = 0;

  do(step: Step, one: Realization): void {
    if (step.what === 'time') {
      this.time += step.milliseconds;
      one.findSilent();
    } else if (step.what === 'report') one.report(this.#report(step));
    else {
      this.#change(step);
      one.publish(this.#compiled(), revision('e', ++this.#position));
    }
  }

  #report({ node, behind, epoch, off, failing }: Extract<Step, { what: 'report' }>): NodeReport {
    const enforced = behind === null ? null : revision(epoch, Math.max(0, this.#position - behind));
    const rules = failing.map((policy) => {
      const generation = this.policies.get(policy)?.rules[0]?.source.generation ?? 0;
      return { apiGroup: 'nodewall.io', policy, generation, rule: null, reason: 'why' } as const;
    });
    const more = off ? { off: '' } : {};
    return { node, enforced, enabled: true, failing: rules, ...more } as unknown as NodeReport;
  }

  #change(step: Extract<Step, { what: 'policy' | 'deleted' }>): void {
    const { name } = step;
    if (step.what === 'deleted') {
      this.policies.delete(name);
      return;
    }
    const before = this.policies.get(name);
    if (before === undefined || step.isEdit) {
      this.#generation++;
      this.versions.set(name, this.#position + 1);
    }
    const source = { apiGroup: 'nodewall.io', policy: name, generation: this.#generation };
    const rules =
      before !== undefined && !step.isEdit ? before.rules : [{ id: name, source } as unknown as CompiledRule];
    this.policies.set(name, { apiGroup: 'nodewall.io', name, rules, spans: [new Set(step.span)] });
  }

  #compiled(): Compiled {
    const nodeAddresses = new Map(NODES.map((name) => [name, []]));
    return { policies: [...this.policies.values()], nodeAddresses } as unknown as Compiled;
  }
}

describe('realization', function () {
  this.timeout(0);

  it('names every policy whose progress changed, and its only cause', function () {
    check(this, 1000, fc.array(STEP, { maxLength: 40 }), (steps) => {
      const [world, other] = [new World(), new World()];
      const one = new Realization(() => world.time);
      const whole = new Realization(() => other.time);
      const known = new Map<string, Progress>();
      const versionOf = (key: string): number => world.versions.get(key.split('/')[1] ?? '') ?? 0;
      for (const step of steps) {
        world.do(step, one);
        other.do(step, whole);
        for (const [key, cause] of one.consumeChanged()) {
          known.set(key, one.progress(key, versionOf(key), 1));
          if (step.what === 'report') assert.equal(cause, step.node);
        }
        for (const policy of other.policies.values())
          assert.deepEqual(
            known.get(realizationKey(policy)),
            whole.progress(realizationKey(policy), versionOf(realizationKey(policy)), 1),
          );
      }
    });
  });
});
