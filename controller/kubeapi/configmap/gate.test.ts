import assert from 'node:assert/strict';
import { GATE_ANNOTATION } from './feature-gate.ts';
import { Gate } from './gate.ts';

const states = (enabled: unknown) => ({ 'config.yaml': `featureGates: {NodeNetworkPolicy: ${enabled}}` });
const remembers = (enabled: boolean) => ({ [GATE_ANNOTATION]: `NodeNetworkPolicy=${enabled}` });

function start(configured: boolean | null = null): { gate: Gate; changes: boolean[]; problems: string[] } {
  const [changes, problems]: [boolean[], string[]] = [[], []];
  const gate = new Gate(configured, {
    changed: (enabled) => void changes.push(enabled),
    problem: (text) => void problems.push(text),
  });
  return { gate, changes, problems };
}

describe('Gate', () => {
  it('is known when the ConfigMap and the Lease were read, whichever comes first', () => {
    for (const order of ['ConfigMap first', 'Lease first']) {
      const { gate, changes } = start();
      const steps = [() => gate.takeConfigMap(null), () => gate.takeLease(remembers(true))];
      for (const step of order === 'Lease first' ? steps.reverse() : steps) {
        assert.equal(gate.enabled, null);
        step();
      }
      assert.equal(gate.enabled, true);
      assert.deepEqual(changes, [true]);
    }
  });

  it('is off where nobody ever said anything, without a complaint', () => {
    const { gate, changes, problems } = start();
    gate.takeLease(null);
    gate.takeConfigMap(null);
    assert.deepEqual([gate.enabled, changes, problems], [false, [false], []]);
    assert.deepEqual(gate.annotations(), {});
  });

  it('has the Lease remember what the ConfigMap said last, and nothing else', () => {
    const { gate } = start(true);
    gate.takeLease({ other: 'x', [GATE_ANNOTATION]: 'nonsense' });
    gate.takeConfigMap(null);
    assert.deepEqual([gate.enabled, gate.annotations()], [true, {}]);
    gate.takeConfigMap(states(false));
    assert.deepEqual(gate.annotations(), remembers(false));
    gate.takeConfigMap(states(true));
    gate.takeConfigMap(null);
    gate.takeConfigMap(states('perhaps'));
    assert.deepEqual([gate.enabled, gate.annotations()], [true, remembers(true)]);
  });

  it('is not moved by what the Lease says later', () => {
    const { gate, changes } = start();
    gate.takeLease(remembers(false));
    gate.takeConfigMap(states(true));
    gate.takeLease(remembers(false));
    assert.deepEqual(changes, [true]);
  });

  it('complains of a ConfigMap that says nothing, and is off at first', () => {
    const { gate, problems } = start();
    gate.takeLease(null);
    gate.takeConfigMap({});
    assert.equal(gate.enabled, false);
    assert.match(problems.join(), /does not set feature gate/);
  });
});
