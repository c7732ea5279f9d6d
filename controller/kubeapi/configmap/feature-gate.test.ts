import assert from 'node:assert/strict';
import { formatGate, gateAfter, gateSetting, parseGate } from './feature-gate.ts';

describe('gateSetting', () => {
  const CASES = [
    [null, null],
    [{}, null],
    [{ 'config.yaml': '' }, null],
    [{ 'config.yaml': 'featureGates: {}' }, null],
    [{ 'config.yaml': 'featureGates: {NodeNetworkPolicy: true}' }, true],
    [{ 'config.yaml': 'featureGates: {NodeNetworkPolicy: false}' }, false],
  ] as const;

  for (const [data, enabled] of CASES) {
    it(`${JSON.stringify(data)}: ${enabled}`, () => {
      assert.deepEqual(gateSetting(data), { enabled, problems: [] });
    });
  }

  it('reads each gate for itself', () => {
    const data = { 'config.yaml': 'featureGates: {EgressGateway: true}' };
    assert.deepEqual(gateSetting(data, 'EgressGateway'), { enabled: true, problems: [] });
    assert.deepEqual(gateSetting(data, 'NodeNetworkPolicy'), { enabled: null, problems: [] });
  });

  it('names the problems of an invalid configuration', () => {
    const { enabled, problems } = gateSetting({
      'config.yaml': 'featureGates: {NodeNetworkPolicy: perhaps}',
    });
    assert.equal(enabled, null);
    assert.match(problems.join(), /^config\.yaml:1: featureGates\.NodeNetworkPolicy: /);
  });
});

describe('gateAfter', () => {
  const VALUES = [null, true, false] as const;
  const says = (text: string) => ({ 'config.yaml': text });

  it('uses the ConfigMap before all other sources', () => {
    for (const before of VALUES) {
      for (const enabled of [true, false]) {
        const data = says(`featureGates: {NodeNetworkPolicy: ${enabled}}`);
        const sources = { before, stated: !enabled, configured: !enabled };
        assert.deepEqual(gateAfter(data, sources, 'NodeNetworkPolicy'), { enabled, problem: null });
      }
    }
  });

  it('keeps its value, else uses the last stated one, else the configured one, else has none', () => {
    for (const before of [...VALUES, 'unset'] as const) {
      for (const stated of VALUES) {
        for (const configured of VALUES) {
          const sources = { before, stated, configured };
          const enabled = before ?? stated ?? configured ?? 'unset';
          const usual = enabled === 'unset' || enabled === configured;
          const problem = usual ? null : 'there is no ConfigMap nodewall-config';
          assert.deepEqual(gateAfter(null, sources, 'NodeNetworkPolicy'), { enabled, problem });
          assert.equal(gateAfter({}, sources, 'NodeNetworkPolicy').enabled, enabled);
          assert.match(
            String(gateAfter({}, sources, 'NodeNetworkPolicy').problem),
            /does not set feature gate NodeNetworkPolicy/,
          );
          const unreadable = gateAfter(says('['), sources, 'NodeNetworkPolicy');
          assert.equal(unreadable.enabled, enabled);
          assert.match(String(unreadable.problem), /is invalid: config\.yaml:1/);
        }
      }
    }
  });
});

describe('gateAfter, of EgressGateway', () => {
  const silent = { 'config.yaml': 'featureGates: {NodeNetworkPolicy: true}' };
  const after = (stated: boolean | null) =>
    gateAfter(silent, { before: null, stated, configured: null }, 'EgressGateway');

  it('is off, or has no value, without a word if nobody ever turned it on', () => {
    assert.deepEqual(after(null), { enabled: 'unset', problem: null });
    assert.deepEqual(after(false), { enabled: false, problem: null });
  });

  it('stays on, with a message, until it is turned off by name', () => {
    assert.deepEqual(after(true), {
      enabled: true,
      problem: 'ConfigMap nodewall-config does not set feature gate EgressGateway',
    });
  });
});

describe('parseGate', () => {
  it('reads what formatGate writes, and nothing else', () => {
    for (const name of ['NodeNetworkPolicy', 'EgressGateway'] as const) {
      for (const enabled of [true, false]) assert.equal(parseGate(formatGate(enabled, name), name), enabled);
      for (const text of [undefined, '', 'true', `${name}=perhaps`, 1])
        assert.equal(parseGate(text, name), null);
    }
    assert.equal(parseGate('EgressGateway=true', 'NodeNetworkPolicy'), null);
  });
});
