/** Ten outages of each kind, of which controllers.test.ts has two. */
import { type OneController, startOneController } from './one-controller.ts';
import { describeWebhookOutages } from './webhook-outages.ts';

describe('a controller and its webhook, over and over', () => {
  let controller: OneController;
  before(async function () {
    this.timeout(1_800_000);
    controller = await startOneController('', 'NodeNetworkPolicy=true');
  });
  after(() => controller?.close());

  describeWebhookOutages(() => controller, 10);
});
