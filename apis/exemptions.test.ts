import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from './config.ts';
import { withApiServer } from './exemptions.ts';

describe('withApiServer', () => {
  it('adds the ports of the API server’s endpoints to the entries for it', () => {
    const slice = {
      kind: 'EndpointSlice',
      name: 'kubernetes',
      namespace: 'default',
      service: 'kubernetes',
      addresses: ['192.0.2.1'],
      ports: [
        { name: 'https', protocol: 'TCP', port: 7443 },
        { name: 'other', protocol: 'UDP', port: 7444 },
      ],
    } as const;
    const { ingress, egress } = withApiServer(DEFAULT_CONFIG.failsafe, [slice]);
    for (const [entries, before] of [
      [ingress, DEFAULT_CONFIG.failsafe.ingress],
      [egress, DEFAULT_CONFIG.failsafe.egress],
    ] as const) {
      const added = entries.filter((entry) => !before.includes(entry));
      assert.deepEqual(
        added.map(({ protocol, ports }) => [protocol, ...ports]),
        before.filter(({ apiServer }) => apiServer).map(() => ['tcp', 7443, 7443]),
      );
    }
  });
});
