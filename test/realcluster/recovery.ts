import assert from 'node:assert/strict';
import { until } from '../kernel/until.ts';
import { type Bed, tableOf, untilAgentsRun } from './nodewall.ts';
import { EVENTS } from './outage.ts';
import { RecoveryPage } from './recovery-page.ts';

/**
 * docs/recovery.md, followed in states that lock nodewall out for good. The steps of a state follow
 * each other; `removal.ts` has the state without any agent.
 */
export function describeRecovery(bed: Bed): void {
  const page = new RecoveryPage(bed);
  const isOpen = async (name: string): Promise<boolean> => (await tableOf(bed.cluster().node(name))) === '';

  describe('locked by rules that name the control plane, when new controllers cannot reach the API server', () => {
    before(async () => {
      await page.lock('ingress');
      // Agents lose their connections, and nobody is there for new ones.
      await EVENTS['all controllers killed'](bed.cluster());
    });

    it('has one node open again by kubectl exec', async () => {
      await page.assertLocked();
      await page.withKubectl('One node off');
      assert.ok(await isOpen('worker-1'));
      await page.assertLocked([bed.cluster().node('worker-1')]);
    });

    it('is open again by the gate alone', async () => {
      await page.withKubectl('Switch all nodes off');
      await page.untilOpen();
    });

    it('follows again', () => page.comeBack());
  });

  describe('locked by rules that name the control plane, when agents reach neither controller nor API server', () => {
    before(async () => {
      await page.lock('egress');
      await EVENTS['all controllers killed'](bed.cluster());
      await EVENTS['all agents restarted'](bed.cluster());
      await untilAgentsRun(bed.cluster());
    });

    it('has one node open again by a file on it', async () => {
      await page.assertLocked();
      const node = bed.cluster().node('worker-2');
      await page.onNodes('On the node alone', [node]);
      await until('its rules are gone', () => isOpen(node.name));
      await page.assertLocked([node]);
    });

    it('is open again by kubectl exec', async () => {
      await page.withKubectl('Every node off, one by one');
      await page.untilOpen();
    });

    it('follows again', () => page.comeBack([bed.cluster().node('worker-2')]));
  });
}
