import assert from 'node:assert/strict';
import { egressScenario } from '../generate/egress/egress-scenario.ts';
import type { Seen } from './agree.ts';
import { agreeOnEgress } from './egress-agree.ts';
import { check, flowCount } from './runs.ts';

describe('egress gateways', function () {
  this.timeout(0);

  it('have the answers of explain that the manifests permit', function () {
    const seen: Seen = new Map();
    check(this, 60, egressScenario(8, flowCount(400)), (drawn) => void agreeOnEgress(drawn, seen));
    if (process.env.NODEWALL_PATH !== undefined) return;
    for (const key of EXPECTED) assert.ok((seen.get(key) ?? 0) >= 3, `${key}: ${seen.get(key) ?? 0}`);
  });
});

const EXPECTED = [
  ...['inside', 'host', 'no-policy', 'policy'].map((reason) => `Direct ${reason}`),
  ...['no-gateway', 'not-ready', 'no-family', 'no-address', 'unknown-pod', 'policy'].map(
    (reason) => `Drop ${reason}`,
  ),
  ...['no-gateway', 'no-family'].map((reason) => `Direct ${reason}`),
  'Gateway policy',
];
