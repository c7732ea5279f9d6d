import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import type { NodeReport } from '../../apis/node-report.ts';
import { NODE_VIEWS_PATH, type StreamMessage } from '../../apis/stream.ts';
import { nodeReport } from '../fake/node-state.ts';

const SERVICE = 'nodewall-controller.nodewall-system.svc';

/** The part of {@link ControllerProcess} that requests need. */
interface Served {
  readonly port: number;
}

/**
 * What the agent of a node asks controllers on loopback, by the name that their certificate is for.
 */
export class AgentRequests {
  /** Of the controllers' certificates, PEM: once the first one has made it. */
  ca = '';
  readonly watch: string;
  readonly #node: string;
  readonly #token: string;

  /** @param token of the agents' account, bound to the Node */
  constructor(node: string, token: string) {
    this.#node = node;
    this.#token = token;
    this.watch = `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name%3D${node}`;
  }

  async ask({ port }: Served, path: string, more: RequestOptions = {}, body?: object) {
    const request = httpsRequest({
      host: '127.0.0.1',
      port,
      path,
      ca: this.ca,
      servername: SERVICE,
      agent: false,
      ...more,
      headers: {
        authorization: `Bearer ${this.#token}`,
        'content-type': 'application/json',
        ...more.headers,
      },
    });
    request.end(body === undefined ? undefined : JSON.stringify(body));
    const [response] = await once(request, 'response');
    return response;
  }

  /** The first whole view that the node is told. */
  async view(controller: Served): Promise<StreamMessage[]> {
    const response = await this.ask(controller, this.watch);
    assert.equal(response.statusCode, 200);
    const messages: StreamMessage[] = [];
    for await (const line of createInterface({ input: response })) {
      messages.push(JSON.parse(line));
      if (messages.at(-1)?.type === 'bookmark') break;
    }
    response.destroy();
    return messages;
  }

  /** That its present view is enforced, but for these rules. */
  async report(controller: Served, failing: NodeReport['failing'] = []): Promise<void> {
    const { revision = '' } = (await this.view(controller)).at(-1) ?? {};
    const said = nodeReport(this.#node, revision, { failing, time: new Date().toISOString() });
    const path = `${NODE_VIEWS_PATH}/${this.#node}/status`;
    const response = await this.ask(controller, path, { method: 'PUT' }, said);
    assert.equal(response.statusCode, 204, await text(response));
  }
}
