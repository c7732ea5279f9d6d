import { describeEgressWebhook } from './egress-webhook.ts';
import { describeGuardrails } from './guardrail.ts';
import { NODES } from './guardrail-bed.ts';
import { type OneController, startOneController } from './one-controller.ts';
import { describeWebhookOutages } from './webhook-outages.ts';

describe('a controller and its webhook, on a real API server', () => {
  let controller: OneController;
  before(async function () {
    this.timeout(1_800_000);
    controller = await startOneController(NODES, 'NodeNetworkPolicy=true,EgressGateway=true');
  });
  after(() => controller?.close());

  describeGuardrails(() => controller);
  // webhook-outages.long.ts has more rounds.
  describeWebhookOutages(() => controller, 2);
  describeEgressWebhook(() => controller);
});
