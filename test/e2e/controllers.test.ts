/**
 * One API server, and the controllers that are started before it and ended, one after another. The
 * first file wants a cluster that has had no CRDs of today; guardrail, webhook-outages and
 * egress-webhook share a controller; the last file makes the tokens of the others worthless.
 */
import './controllers/reapply.test.ts';
import './controllers/controller.test.ts';
import './controllers/guardrail.test.ts';
import './controllers/webhook-outages.test.ts';
import './controllers/egress-webhook.test.ts';
import './controllers/lost-token.test.ts';
