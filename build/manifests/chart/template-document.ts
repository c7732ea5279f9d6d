import assert from 'node:assert/strict';
import { type Document, isCollection, isMap, isNode, isScalar, isSeq, type Node, Pair, Scalar } from 'yaml';

/** One operation of a kustomize patch (JSON Patch, RFC 6902). */
export type KustomizeOperation =
  | { readonly op: 'add' | 'replace'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string };

type Keys = readonly (string | number)[];

/**
 * A manifest that becomes a template of Helm. Parts of it are replaced by expressions, or stand
 * under a condition; what is left, comments included, stays as it is.
 */
export class TemplateDocument {
  readonly #document: Document.Parsed | Document;
  /** The texts that the placeholders `__0__`, `__1__`, … stand for. */
  readonly #texts: string[] = [];
  readonly #conditions: string[] = [];

  constructor(document: Document.Parsed | Document) {
    this.#document = document;
  }

  get kind(): unknown {
    return this.#document.get('kind');
  }

  get name(): unknown {
    return this.#document.getIn(['metadata', 'name']);
  }

  /** The API group; '' is that of Pods. */
  get group(): string {
    const [group, version] = String(this.#document.get('apiVersion')).split('/');
    return version === undefined ? '' : (group ?? '');
  }

  /** The value at a path as it is now, placeholders included. */
  value(keys: Keys): unknown {
    const node = this.#document.getIn(keys, true);
    return isNode(node) ? node.toJS(this.#document) : node;
  }

  /** Sets a plain value; what is missing around it is made. */
  set(keys: Keys, value: unknown): void {
    this.#document.setIn(keys, value);
  }

  /** The whole manifest is there only under this condition as well. */
  only(condition: string): void {
    this.#conditions.push(condition);
  }

  /** Replaces the present value, which must be there. */
  put(keys: Keys, expression: string): void {
    assert.ok(this.#document.hasIn(keys), `${this.name}: ${keys.join('.')}`);
    this.#document.setIn(keys, this.#placeholder(expression));
  }

  /** Adds lines of template text at the end of a map or list, which must be there. */
  append(keys: Keys, text: string): void {
    const parent = this.#block(keys);
    if (isSeq(parent)) parent.items.push(this.#placeholder(text));
    else if (isMap(parent)) parent.items.push(this.#line(text));
    else assert.fail(`${this.name}: ${keys.join('.')} is neither a map nor a list`);
  }

  /** Does under the condition what the operation says. */
  patch(condition: string, operation: KustomizeOperation): void {
    const keys = operation.path.split('/').slice(1).map(toKey);
    const last = keys.pop() ?? assert.fail(operation.path);
    switch (operation.op) {
      case 'add':
        this.#add(condition, keys, last, operation.value);
        return;
      case 'replace': {
        const present = this.#document.getIn([...keys, last], true);
        assert.ok(isScalar(present), operation.path);
        const expression = `{{ if ${condition} }}${operation.value}{{ else }}${present.value}{{ end }}`;
        this.put([...keys, last], expression);
        return;
      }
      case 'remove':
        this.#remove(condition, keys, last);
        return;
    }
  }

  /** Replaces what has this value, wherever it is under this key. */
  replaceEach(key: string, value: string, expression: string): void {
    const walk = (node: unknown): void => {
      if (isSeq(node)) node.items.forEach(walk);
      if (!isMap(node)) return;
      for (const pair of node.items) {
        const isWanted = isScalar(pair.key) && pair.key.value === key;
        if (isWanted && isScalar(pair.value) && pair.value.value === value)
          pair.value = this.#placeholder(expression);
        else walk(pair.value);
      }
    };
    walk(this.#document.contents);
  }

  toString(): string {
    const text = this.#document
      .toString({ lineWidth: 0, directives: false, flowCollectionPadding: false })
      // Helm must not expand the expressions of Prometheus and Grafana.
      .replace(/\{\{.*?\}\}/g, (text) => `{{\`${text}\`}}`)
      .replace(
        /^( *)(?:- )?__(\d+)__(?:: null)?$/gm,
        (_, indent, index) => indent + this.#texts[Number(index)],
      )
      .replace(/__(\d+)__/g, (_, index) => this.#texts[Number(index)] ?? assert.fail());
    return this.#conditions.reduceRight(
      (inner, condition) => `{{- if ${condition} }}\n${inner}{{- end }}\n`,
      text,
    );
  }

  #add(condition: string, keys: Keys, last: string | number, value: unknown): void {
    const parent = this.#block(keys);
    const [begin, end] = [`{{- if ${condition} }}`, '{{- end }}'];
    const node = this.#document.createNode(value) as Node;
    if (isSeq(parent)) {
      assert.equal(last, '-', 'only additions at the end');
      parent.items.push(this.#placeholder(begin), node, this.#placeholder(end));
    } else if (isMap(parent)) {
      assert.ok(!parent.has(last), `${this.name}: ${last}`);
      const key = new Scalar(last);
      parent.items.push(this.#line(begin), new Pair(key, node), this.#line(end));
    } else assert.fail(`${this.name}: ${keys.join('.')} is neither a map nor a list`);
  }

  #remove(condition: string, keys: Keys, last: string | number): void {
    const parent = this.#block(keys);
    assert.ok(isMap(parent));
    const at = parent.items.findIndex(({ key }) => isScalar(key) && key.value === last);
    assert.ok(at >= 0, `${this.name}: ${last}`);
    parent.items.splice(at + 1, 0, this.#line('{{- end }}'));
    parent.items.splice(at, 0, this.#line(`{{- if not (${condition}) }}`));
  }

  /** The collection; from now on its items, and those around it, have lines of their own. */
  #block(keys: Keys): Node {
    for (let depth = 0; depth <= keys.length; depth++) {
      const node = this.#document.getIn(keys.slice(0, depth), true);
      assert.ok(isCollection(node), `${this.name}: ${keys.slice(0, depth).join('.')}`);
      node.flow = false;
    }
    return this.#document.getIn(keys, true) as Node;
  }

  #placeholder(text: string): Scalar {
    return new Scalar(`__${this.#texts.push(text) - 1}__`);
  }

  #line(text: string): Pair {
    return new Pair(this.#placeholder(text), new Scalar(null));
  }
}

function toKey(part: string): string | number {
  const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
  return /^\d+$/.test(key) ? Number(key) : key;
}
