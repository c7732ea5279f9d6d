import assert from 'node:assert/strict';
import fc from 'fast-check';
import { DEFAULT_ROLLOUT, EVERY_PLACE, type RolloutDecision } from '../../apis/rollout.ts';
import {
  type MemberFacts,
  type NextStage,
  nextStage,
  type RolloutFacts,
  type RolloutOutcome,
  takers,
} from './decision.ts';
import { placeInRollout, type RolloutNode, rolloutOrder, stepSizes, takesPart } from './order.ts';

const toNode = (name: string, zone: string): RolloutNode => ({
  name,
  zone,
  place: placeInRollout(name, 'u'),
});
const NODES = Array.from({ length: 40 }, (_, i) => toNode(`n${i}`, `z${i % 3}`));
/** With those that may join. */
const EVERYONE = Array.from({ length: 61 }, (_, i) => `n${i}`);

/** Generations with equal remainders by 100 have the same rules. */
const isSame = (a: number, b: number): boolean => a !== 0 && a % 100 === b % 100;

function member(fields: Partial<MemberFacts> = {}): MemberFacts {
  return { name: 'p', uid: 'u', generation: 2, before: 1, isSame, command: null, ...fields };
}

/** A rollout that is decided again and again. */
class Trial {
  stage: NextStage | null = null;
  now = 1_000_000;
  outcomes = new Map<string, RolloutOutcome>();
  facts: Omit<RolloutFacts, 'outcomeOf' | 'now'> = {
    key: 'u',
    members: [member()],
    settings: { ...DEFAULT_ROLLOUT, steps: [1, '25%', '100%'] },
    nodes: NODES,
  };

  look(): RolloutDecision {
    const { now, facts, outcomes } = this;
    // As if another leader read what this one wrote.
    const last = this.stage === null ? null : (JSON.parse(JSON.stringify(this.stage)) as NextStage);
    this.stage = nextStage(last, { ...facts, now, outcomeOf: (name) => outcomes.get(name) ?? 'pending' });
    return this.stage.decision;
  }

  get in(): readonly string[] {
    if (this.stage === null) return [];
    return takers(this.facts.nodes, this.stage.decision).map(({ name }) => name);
  }

  confirm(): void {
    for (const name of this.in) if (!this.outcomes.has(name)) this.outcomes.set(name, 'confirmed');
  }

  /** Confirms, and lets the pause pass. */
  pass(): RolloutDecision {
    this.confirm();
    this.look();
    this.now += 60_000;
    return this.look();
  }

  command(command: string): RolloutDecision {
    this.facts = { ...this.facts, members: this.facts.members.map((one) => ({ ...one, command })) };
    return this.look();
  }

  /** One of the things that happen between two looks. */
  change(event: string, i: number): void {
    const chosen = this.in[i % Math.max(1, this.in.length)] ?? '';
    const { nodes } = this.facts;
    if (event === 'confirm') this.confirm();
    else if (event === 'time') this.now += 61_000;
    else if (event === 'fail') this.outcomes.set(chosen, 'failed');
    else if (event === 'silent') this.outcomes.set(chosen, 'silent');
    else if (event === 'leave')
      this.facts = { ...this.facts, nodes: nodes.filter(({ name }) => name !== EVERYONE[i]) };
    else if (event === 'join' && !nodes.some(({ name }) => name === EVERYONE[i]))
      this.facts = { ...this.facts, nodes: [...nodes, toNode(EVERYONE[i] ?? '', `z${i}`)] };
    else if (event === 'move')
      this.facts = { ...this.facts, nodes: nodes.map((one) => ({ ...one, zone: `${one.zone}${i % 2}` })) };
    else if (event === 'pause' || event === 'resume') {
      const command = `${event} ${i}`;
      this.facts = { ...this.facts, members: this.facts.members.map((one) => ({ ...one, command })) };
    }
  }

  edit(generation: number): RolloutDecision {
    this.facts = { ...this.facts, members: this.facts.members.map((one) => ({ ...one, generation })) };
    return this.look();
  }
}

describe('a rollout', () => {
  it('goes through its steps, each after all nodes have confirmed and the pause is over', () => {
    const trial = new Trial();
    assert.deepEqual([trial.look().step, trial.in.length], [1, 1]);
    trial.now += 600_000;
    assert.equal(trial.look().step, 1, 'the node has not confirmed');
    trial.confirm();
    trial.look();
    assert.equal(trial.stage?.next, 60_000);
    trial.now += 59_000;
    assert.equal(trial.look().step, 1);
    assert.equal(trial.stage?.next, 1_000);
    trial.now += 1_000;
    assert.deepEqual([trial.look().step, trial.in.length], [2, 10]);
    assert.deepEqual([trial.pass().step, trial.in.length], [3, 40]);
    const { state, policies } = trial.pass();
    assert.equal(state, 'Completed');
    assert.deepEqual(policies, [{ name: 'p', uid: 'u', from: 2, to: 2 }]);
  });

  it('stages the first version as well: other nodes have none', () => {
    const trial = new Trial();
    trial.facts = { ...trial.facts, members: [member({ generation: 1, before: 0 })] };
    assert.deepEqual(trial.look().policies, [{ name: 'p', uid: 'u', from: 0, to: 1 }]);
    assert.equal(trial.in.length, 1);
  });

  it('is complete at once for a policy that is not changed, and for one that selects no node', () => {
    const trial = new Trial();
    trial.facts = { ...trial.facts, members: [member({ generation: 7, before: 7 })] };
    assert.equal(trial.look().state, 'Completed');
    assert.equal(trial.edit(107).state, 'Completed', 'spec.rollout alone was edited');
    assert.deepEqual(trial.stage?.decision.policies[0], { name: 'p', uid: 'u', from: 107, to: 107 });
    const empty = new Trial();
    empty.facts = { ...empty.facts, nodes: [] };
    assert.equal(empty.look().state, 'Completed');
  });

  it('does not wait for silent nodes, and not for failed ones that are allowed', () => {
    const trial = new Trial();
    trial.facts = { ...trial.facts, settings: { ...trial.facts.settings, maxFailures: 1 } };
    trial.look();
    trial.outcomes.set(trial.in[0] ?? '', 'failed');
    trial.pass();
    const [one = ''] = trial.in.filter((name) => !trial.outcomes.has(name));
    trial.outcomes.set(one, 'silent');
    assert.equal(trial.pass().step, 3);
  });

  it('pauses when more nodes fail than are allowed, and goes on when it is resumed', () => {
    const trial = new Trial();
    trial.look();
    const [bad = ''] = trial.in;
    trial.outcomes.set(bad, 'failed');
    const { state, pausedBy } = trial.look();
    assert.deepEqual([state, pausedBy], ['Paused', 'Failures']);
    trial.outcomes.set(bad, 'confirmed');
    assert.equal(trial.pass().state, 'Paused', 'only a command or another version ends it');
    trial.outcomes.set(bad, 'failed');
    assert.equal(trial.command('resume').state, 'Progressing');
    trial.now += 60_000;
    assert.equal(trial.look().step, 2, 'the node that failed is tolerated');
    const [other = ''] = trial.in.filter((name) => !trial.outcomes.has(name));
    trial.outcomes.set(other, 'failed');
    assert.equal(trial.look().state, 'Paused');
    assert.equal(trial.command('resume again').state, 'Progressing');
  });

  it('is paused while the annotation says so, before its first step too', () => {
    const trial = new Trial();
    trial.facts = { ...trial.facts, members: [member({ command: 'pause' })] };
    assert.deepEqual([trial.look().state, trial.in.length], ['Paused', 0]);
    trial.facts = { ...trial.facts, members: [member()] };
    assert.deepEqual([trial.look().state, trial.in.length], ['Progressing', 1]);
    trial.command('pause');
    assert.equal(trial.pass().state, 'Paused');
    assert.equal(trial.command('resume').step, 2);
  });

  it('is undone until the spec changes', () => {
    const trial = new Trial();
    trial.look();
    trial.pass();
    const { state, policies } = trial.command('undo');
    assert.deepEqual([state, policies[0]?.from, trial.in.length], ['Undone', 1, 0]);
    for (const command of ['pause', 'resume']) assert.equal(trial.command(command).state, 'Undone');
    const again = trial.edit(3);
    assert.deepEqual([again.state, again.policies[0]?.from, trial.in.length], ['Progressing', 1, 1]);
  });

  it('is promoted to all nodes, also after it was undone; a command in a new policy is not acted on', () => {
    const trial = new Trial();
    trial.look();
    trial.command('undo');
    const { state, through } = trial.command('promote');
    assert.deepEqual([state, through], ['Completed', EVERY_PLACE]);
    assert.equal(trial.edit(3).step, 1, 'the annotation was acted on');
    const fresh = new Trial();
    fresh.facts = { ...fresh.facts, members: [member({ command: 'promote' })] };
    assert.equal(fresh.look().state, 'Progressing');
  });

  it('begins again with a newer version, with the nodes that took part; the last completed one stays', () => {
    const trial = new Trial();
    trial.look();
    const [first] = trial.in;
    trial.pass();
    const newcomer = { ...NODES[0], name: 'new', zone: 'z9', place: '0000' } as (typeof NODES)[number];
    trial.facts = { ...trial.facts, nodes: [newcomer, ...NODES] };
    const { step, policies } = trial.edit(3);
    assert.deepEqual([step, policies[0]?.from, policies[0]?.to], [1, 1, 3]);
    assert.equal(trial.in.length, 1);
    assert.ok(trial.in[0] === first || trial.in[0] === 'new');
    assert.equal(trial.edit(101).state, 'Completed', 'the last completed version again');
  });

  it('moves all policies of a group; one that joins begins it again', () => {
    const trial = new Trial();
    const [a, b] = [
      member({ name: 'a', uid: 'a' }),
      member({ name: 'b', uid: 'b', generation: 5, before: 5 }),
    ];
    trial.facts = { ...trial.facts, members: [a, b] };
    trial.look();
    assert.deepEqual(
      trial.stage?.decision.policies.map(({ from, to }) => [from, to]),
      [
        [1, 2],
        [5, 5],
      ],
    );
    trial.pass();
    trial.facts = { ...trial.facts, members: [a, { ...b, generation: 6 }] };
    const { step, policies } = trial.look();
    assert.deepEqual(
      [step, policies.map(({ from, to }) => [from, to])],
      [
        1,
        [
          [1, 2],
          [5, 6],
        ],
      ],
    );
    trial.facts = { ...trial.facts, members: [a] };
    assert.equal(trial.look().policies.length, 1);
  });

  it('extends a step that only silent nodes are in, or none any more, up to one that reports', () => {
    const order = rolloutOrder(NODES, { through: '', firsts: [] }).map(({ name }) => name);
    const [first = '', second = '', third = ''] = order;
    const trial = new Trial();
    for (const name of [first, second]) trial.outcomes.set(name, 'silent');
    trial.look();
    assert.deepEqual(trial.in, [first]);
    assert.deepEqual([trial.look().step, trial.in.toSorted()], [1, [first, second, third].sort()]);
    assert.equal(trial.pass().step, 2);
    const gone = new Trial();
    gone.look();
    gone.facts = { ...gone.facts, nodes: NODES.filter(({ name }) => name !== first) };
    assert.deepEqual([gone.look().step, gone.in], [1, [second]]);
    const dark = new Trial();
    for (const { name } of NODES) dark.outcomes.set(name, 'silent');
    dark.look();
    assert.equal(dark.look().step, 1, 'the pause is kept');
    assert.equal(dark.pass().step, 2, 'nobody is waited for');
  });

  it('keeps the place of a node that is away while a step begins', () => {
    const [p0, p1, p2] = ['0', '1', '2'].map((digit) => ({ name: `p${digit}`, zone: 'a', place: digit }));
    assert.ok(p0 && p1 && p2);
    const trial = new Trial();
    const settings = { ...DEFAULT_ROLLOUT, steps: [2, '60%'] };
    trial.facts = { ...trial.facts, settings, nodes: [p0, p1, p2] };
    trial.look();
    assert.deepEqual(trial.in, ['p0', 'p1']);
    trial.facts = { ...trial.facts, nodes: [p0, p2, { name: 'p8', zone: 'b', place: '8' }] };
    trial.pass();
    assert.deepEqual(trial.in, ['p0', 'p8'], 'by its zone');
    trial.facts = { ...trial.facts, nodes: [p0, p1, p2] };
    assert.deepEqual(trial.in, ['p0', 'p1']);
  });

  it('keeps the pause that has begun when nodes join or start again, but waits for them at its end', () => {
    const trial = new Trial();
    trial.look();
    const [one = ''] = trial.in;
    trial.outcomes.set(one, 'confirmed');
    trial.look();
    trial.outcomes.set(one, 'pending');
    trial.now += 60_000;
    assert.equal(trial.look().step, 1);
    trial.outcomes.set(one, 'confirmed');
    assert.equal(trial.look().step, 2);
  });

  it('never skips a step, and never takes a node back, whatever happens between two looks', () => {
    const kinds = ['confirm', 'time', 'fail', 'silent', 'leave', 'join', 'move', 'pause', 'resume', 'look'];
    const events = fc.tuple(fc.constantFrom(...kinds), fc.nat(60));
    fc.assert(
      fc.property(fc.array(events, { maxLength: 80 }), fc.nat(2), (list, maxFailures) => {
        const trial = new Trial();
        const steps = [1, 3, '25%', '50%'];
        trial.facts = { ...trial.facts, settings: { ...trial.facts.settings, steps, maxFailures } };
        let last = trial.look();
        for (const [event, i] of list) {
          trial.change(event, i);
          const before = new Set(trial.in);
          const isPending = [...before].some((name) => (trial.outcomes.get(name) ?? 'pending') === 'pending');
          const settled = trial.stage?.notes.settled;
          const now = trial.look();
          // All names, also those that are away.
          for (const name of EVERYONE)
            if (takesPart(last, name, placeInRollout(name, 'u')))
              assert.ok(takesPart(now, name, placeInRollout(name, 'u')), `${name} is taken back`);
          if (now.serial !== last.serial) assert.equal(now.serial, last.serial + 1);
          else assert.deepEqual(now, last);
          const sizes = stepSizes(steps, trial.facts.nodes.length);
          const wanted = now.state === 'Completed' ? sizes.length + 1 : now.step;
          for (const size of sizes.slice(last.step, wanted - 1))
            if (last.state !== 'Completed') assert.ok(size <= before.size, 'a step was skipped');
          if (now.step !== last.step) {
            assert.ok(!isPending, 'a step began before the last one was done');
            const isOver = settled === undefined || trial.now >= Date.parse(settled) + 60_000;
            assert.ok(isOver, 'a step began before the pause was over');
            if (event !== 'resume') assert.notEqual(last.pausedBy, 'Failures');
          }
          last = now;
        }
      }),
    );
  });
});
