/** One API server, and the controllers that are started before it and ended, one after another. */
import { startCluster, type TestCluster } from '../cluster/cluster.ts';
import { describeController } from './controller.ts';
import { describeEgressWebhook } from './egress-webhook.ts';
import { describeGuardrails } from './guardrail.ts';
import { NODES } from './guardrail-bed.ts';
import { describeLostToken } from './lost-token.ts';
import { type OneController, startOneController } from './one-controller.ts';
import { describeReapply } from './reapply.ts';
import { describeWebhookOutages } from './webhook-outages.ts';

describe('controllers of one API server', () => {
  let cluster: TestCluster;
  before(async function () {
    this.timeout(1_800_000);
    cluster = await startCluster();
  });
  after(() => cluster?.close());

  // First: it wants a cluster that has had no CRDs of today.
  describeReapply(() => cluster);
  describeController(() => cluster);

  describe('a controller and its webhook, on a real API server', () => {
    let controller: OneController;
    before(async function () {
      this.timeout(60_000);
      controller = await startOneController(NODES, 'NodeNetworkPolicy=true,EgressGateway=true', cluster);
    });
    after(() => controller?.close());

    describeGuardrails(() => controller);
    // webhook-outages.long.ts has more rounds.
    describeWebhookOutages(() => controller, 2);
    describeEgressWebhook(() => controller);
  });

  // Last: it makes the tokens of the others worthless.
  describeLostToken(() => cluster);
});
