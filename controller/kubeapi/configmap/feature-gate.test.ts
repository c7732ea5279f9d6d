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

  it('refuses egress gateways, which are not built for clusters', () => {
    const { enabled, problems } = gateSetting({
      'config.yaml': 'featureGates: {NodeNetworkPolicy: true, EgressGateway: true}',
    });
    assert.equal(enabled, true);
    assert.match(problems.join(), /^config\.yaml: featureGates\.EgressGateway: is not built for clusters/);
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
        assert.deepEqual(gateAfter(data, sources), { enabled, problem: null });
      }
    }
  });

  it('keeps its value, else uses the last stated one, else the configured one, else off', () => {
    for (const before of VALUES) {
      for (const stated of VALUES) {
        for (const configured of VALUES) {
          const sources = { before, stated, configured };
          const enabled = before ?? stated ?? configured ?? false;
          assert.deepEqual(gateAfter(null, sources), { enabled, problem: null });
          assert.equal(gateAfter({}, sources).enabled, enabled);
          assert.match(String(gateAfter({}, sources).problem), /does not set feature gate NodeNetworkPolicy/);
          const unreadable = gateAfter(says('['), sources);
          assert.equal(unreadable.enabled, enabled);
          assert.match(String(unreadable.problem), /is invalid: config\.yaml:1/);
        }
      }
    }
  });
});

describe('parseGate', () => {
  it('reads what formatGate writes, and nothing else', () => {
    for (const enabled of [true, false]) assert.equal(parseGate(formatGate(enabled)), enabled);
    for (const text of [undefined, '', 'true', 'NodeNetworkPolicy=perhaps', 1])
      assert.equal(parseGate(text), null);
  });
});
