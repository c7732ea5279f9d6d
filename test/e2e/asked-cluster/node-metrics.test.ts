/** How Prometheus gets the metrics of an agent: through each controller, by the agent's stream. */

import assert from 'node:assert/strict';
import { ALL_NODES_PATH } from '../../../apis/node-question.ts';
import { usersYaml } from '../../cluster/admin-api.ts';
import { kernelSuite } from '../../kernel/kernel-suite.ts';
import { until } from '../../kernel/until.ts';
import { checkConventions } from '../../metrics/promtool.ts';
import { NODE, PORTS } from '../asked-bed.ts';
import { controllerCa } from '../installed.ts';
import { askedCluster } from '../labs.ts';
import { closed, type Story } from '../story-bed.ts';

/** As in the DaemonSet: nobody else reaches it. */
const METRICS = '127.0.0.1:9412';
const SCRAPER = usersYaml({ prometheus: ['nodewall-metrics-reader'] });
/** Of each line of output: the status, a blank, and the body. */
const PROGRAM = `
import { request } from 'node:https';
const [host, port, path, token, ca] = process.argv.slice(1);
const servername = 'nodewall-controller.nodewall-system.svc';
const headers = token === '' ? {} : { authorization: 'Bearer ' + token };
request({ host, port, path, ca, servername, headers }, async (answer) => {
  let body = '';
  for await (const part of answer) body += part;
  console.log(answer.statusCode + ' ' + body);
}).end();
`;

interface EventObject {
  readonly reason: string;
  readonly involvedObject: { readonly kind: string; readonly name: string };
}

kernelSuite('metrics of agents, scraped from controllers', () => {
  const bed = askedCluster.use();
  let story: Story;
  let token: string;
  let ca: string;
  before(async () => {
    ({ story } = bed());
    await story.cluster.apply(SCRAPER);
    token = await story.cluster.token('default/prometheus');
    ca = await controllerCa(story.cluster);
    const agent = story.agents[NODE] ?? assert.fail();
    await agent.end('SIGTERM');
    agent.start('--metrics-listen', METRICS);
  });

  const scrape = (port: number, node: string, as = token) =>
    get(port, `${ALL_NODES_PATH}/${encodeURIComponent(node)}`, as);

  async function get(port: number, path: string, as = token): Promise<string> {
    const { controlPlane, address } = story;
    const args = [address, `${port}`, path, as, ca];
    const program = ['--input-type=module', '-e', PROGRAM, ...args];
    return (await controlPlane.run([process.execPath, ...program])).stdout;
  }

  it('gives them at each controller, whichever has the stream of the agent', async () => {
    for (const port of PORTS) {
      let last = '';
      await until(
        'the metrics',
        async () => {
          last = await scrape(port, NODE);
          return last.startsWith('200 ') && /^nodewall_agent_controller_connected 1$/m.test(last);
        },
        { detail: () => last },
      );
    }
  });

  it('gives those of all nodes at each controller, in the form that Prometheus wants', async () => {
    for (const port of PORTS) {
      let last = '';
      await until(
        'every node is up to date',
        async () => {
          last = await get(port, ALL_NODES_PATH);
          return (
            last.match(/^nodewall_node_up_to_date\{.*\} 1$/gm)?.length === Object.keys(story.agents).length
          );
        },
        { detail: () => last },
      );
      await checkConventions(last.slice('200 '.length));
      assert.match(last, /^nodewall_node_drifts_total\{node="worker-1"\} 0$/m);
    }
  });

  it('counts what the agent repaired, and an Event on the Node says it', async () => {
    await story.machine(NODE).namespace.run(['nft', 'delete', 'table', 'inet', 'nodewall']);
    await story.agents[NODE]?.says('a third party changed the rules in force');
    // News: the agent reports within two seconds.
    await story.applied(closed('news', 8080));
    for (const port of PORTS) {
      let last = '';
      await until(
        'the repair is counted',
        async () => {
          last = await get(port, ALL_NODES_PATH);
          return /^nodewall_node_drifts_total\{node="worker-1"\} [1-9]/m.test(last);
        },
        { limit: 90_000, detail: () => last },
      );
    }
    await until('an Event', async () => {
      const { items } = await story.cluster.get<{ items: EventObject[] }>('events', '--namespace=default');
      return items.some(
        ({ reason, involvedObject: { kind, name } }) =>
          reason === 'NodewallDriftRepaired' && kind === 'Node' && name === NODE,
      );
    });
  });

  it('refuses those who may not read metrics, and names what is missing', async () => {
    const [port] = PORTS;
    assert.match(await scrape(port, NODE, ''), /^401 /);
    const agent = await story.cluster.token('nodewall-system/nodewall-agent');
    assert.match(await scrape(port, NODE, agent), /^403 .*may not get \/metrics/);
    assert.match(await scrape(port, 'nobody'), /^404 .*there is no Node nobody/);
    assert.match(await scrape(port, 'cp-1'), /^503 .*it runs without --metrics-listen/);
  });
});
