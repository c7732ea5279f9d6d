import assert from 'node:assert/strict';
import { type Config, DEFAULT_CONFIG } from '../apis/config.ts';
import { checkEgressAlone } from './feature-gates.ts';

const config = (EgressGateway: boolean, encryption: Config['egress']['encryption']): Config => ({
  ...DEFAULT_CONFIG,
  featureGates: { EgressGateway },
  egress: { ...DEFAULT_CONFIG.egress, encryption },
});

describe('a stand-alone agent', () => {
  it('does not start with a tunnel that has to be encrypted: nobody tells it the keys of others', () => {
    assert.throws(
      () => checkEgressAlone(config(true, 'WireGuard')),
      /^CommandError: egress\.encryption: .* needs a cluster/,
    );
    checkEgressAlone(config(true, 'None'));
    checkEgressAlone(config(false, 'WireGuard'));
  });
});
