import assert from 'node:assert/strict';
import type { GateValue } from '../../../apis/stream.ts';
import { GATE_ANNOTATIONS, Gate, switchOffSetting } from './feature-gate.ts';

const states = (enabled: unknown) => ({ 'config.yaml': `featureGates: {NodeNetworkPolicy: ${enabled}}` });
const remembers = (enabled: boolean) => ({
  [GATE_ANNOTATIONS.NodeNetworkPolicy]: `NodeNetworkPolicy=${enabled}`,
});

function start(configured: boolean | null = null): { gate: Gate; changes: GateValue[]; problems: string[] } {
  const [changes, problems]: [GateValue[], string[]] = [[], []];
  const gate = new Gate('NodeNetworkPolicy', configured, {
    changed: (enabled) => void changes.push(enabled),
    problem: (text) => void problems.push(text),
  });
  return { gate, changes, problems };
}

describe('Gate', () => {
  it('is known once both ConfigMap and Lease are read, in either order', () => {
    for (const order of ['ConfigMap first', 'Lease first']) {
      const { gate, changes } = start();
      const steps = [() => gate.setConfigMap(null), () => gate.setAnnotations(remembers(true))];
      for (const step of order === 'Lease first' ? steps.reverse() : steps) {
        assert.equal(gate.enabled, null);
        step();
      }
      assert.equal(gate.enabled, true);
      assert.deepEqual(changes, [true]);
    }
  });

  it('has no value, without a problem, if it was never set', () => {
    const { gate, changes, problems } = start();
    gate.setAnnotations(null);
    gate.setConfigMap(null);
    assert.deepEqual([gate.enabled, changes, problems], ['unset', ['unset'], []]);
    assert.deepEqual(gate.annotations(), {});
  });

  it('stores only the last value of the ConfigMap in the Lease', () => {
    const { gate } = start(true);
    gate.setAnnotations({ other: 'x', [GATE_ANNOTATIONS.NodeNetworkPolicy]: 'nonsense' });
    gate.setConfigMap(null);
    assert.deepEqual([gate.enabled, gate.annotations()], [true, {}]);
    gate.setConfigMap(states(false));
    assert.deepEqual(gate.annotations(), remembers(false));
    gate.setConfigMap(states(true));
    gate.setConfigMap(null);
    gate.setConfigMap(states('perhaps'));
    assert.deepEqual([gate.enabled, gate.annotations()], [true, remembers(true)]);
  });

  it('ignores later changes of the Lease', () => {
    const { gate, changes } = start();
    gate.setAnnotations(remembers(false));
    gate.setConfigMap(states(true));
    gate.setAnnotations(remembers(false));
    assert.deepEqual(changes, [true]);
  });

  it('says how nodes follow a gate that is off, and again when that changes', () => {
    const changes: unknown[] = [];
    const problems: string[] = [];
    const gate = new Gate('NodeNetworkPolicy', null, {
      changed: (...change) => void changes.push(change),
      problem: (text) => void problems.push(text),
    });
    gate.setAnnotations(null);
    for (const [enabled, time] of [
      [true, '60'],
      [true, 'now'],
      [false, '60'],
      [false, '60'],
      [false, 'now'],
      [true, 'now'],
      [false, 'soon'],
    ])
      gate.setConfigMap({ ...states(enabled), 'switch-off': String(time) });
    assert.deepEqual(changes, [
      [true, 60],
      [false, 60],
      [false, 0],
      [true, 0],
      [false, null],
    ]);
    assert.equal(problems.length, 1);
    assert.match(problems[0] ?? '', /switch-off: must be now/);
  });

  it('reports a ConfigMap without the gate, and has no value', () => {
    const { gate, problems } = start();
    gate.setAnnotations(null);
    gate.setConfigMap({});
    assert.equal(gate.enabled, 'unset');
    assert.match(problems.join(), /does not set feature gate/);
  });
});

describe('switchOffSetting', () => {
  const CASES = [
    [undefined, null],
    ['usual', null],
    ['now', 0],
    [' now\n', 0],
    ['0', 0],
    ['600', 600],
    ['86400', 86_400],
  ] as const;

  for (const [text, over] of CASES) {
    it(`${text}: ${over}`, () => {
      const data = text === undefined ? {} : { 'switch-off': text };
      assert.deepEqual(switchOffSetting(data), { over, problem: null });
    });
  }

  it('is the usual time without a ConfigMap', () => {
    assert.deepEqual(switchOffSetting(null), { over: null, problem: null });
  });

  for (const text of ['', 'soon', '-1', '1.5', '86401', '1000000', 'NOW', 'true']) {
    it(`${JSON.stringify(text)}: the usual time, with a problem`, () => {
      const { over, problem } = switchOffSetting({ 'switch-off': text });
      assert.equal(over, null);
      assert.match(String(problem), /switch-off: must be now, usual, or a number of seconds up to 86400/);
    });
  }
});
