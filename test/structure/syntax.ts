import { join } from 'node:path';
import {
  type Identifier,
  isArrayLiteralExpression,
  isAssignmentOperator,
  isBinaryExpression,
  isFunctionLikeDeclaration,
  isIdentifier,
  isNewExpression,
  isObjectLiteralExpression,
  isPostfixUnaryExpression,
  isPrefixUnaryExpression,
  isPropertyAssignment,
  isShorthandPropertyAssignment,
  isStringLiteral,
  type Node,
  type SourceFile,
  SyntaxKind,
} from 'typescript/unstable/ast';
import { API, type Project, SymbolFlags } from 'typescript/unstable/sync';
import { ROOT } from './source-file.ts';

/** A function, method, accessor or arrow function with a body. */
export interface FunctionFacts {
  readonly file: string;
  /** Of its head, from 1. */
  readonly line: number;
  /** Of the function, or of what it is assigned to. */
  readonly name: string;
  /** Lines from its head to its closing brace, with the functions in it. */
  readonly length: number;
  /** Its variables that functions in it assign. */
  readonly captured: readonly string[];
}

/** Facts of every function in files of one TypeScript project; a file that it lacks is an error. */
export function functionsIn(configFile: string, files: readonly string[]): FunctionFacts[] {
  return eachSource(configFile, files, functionsOf);
}

function functionsOf(source: SourceFile, file: string, project: Project): FunctionFacts[] {
  /** The innermost function around each node. */
  const around = new Map<Node, Node>();
  const functions = new Map<Node, { readonly name: string; readonly captured: Set<string> }>();
  const assignments: { readonly variable: Identifier; readonly within: Node }[] = [];
  const visit = (node: Node, parent: Node, within: Node): void => {
    around.set(node, within);
    const isFunction = isFunctionLikeDeclaration(node) && node.body !== undefined;
    if (isFunction) functions.set(node, { name: nameOf(node, parent, source), captured: new Set() });
    for (const variable of assigned(node)) assignments.push({ variable, within });
    node.forEachChild((child) => visit(child, node, isFunction ? node : within));
  };
  visit(source, source, source);
  for (const { variable, within } of assignments) {
    const symbol = project.checker.resolveName(variable.text, SymbolFlags.Variable, variable);
    const declaration = symbol?.valueDeclaration?.resolve(project);
    const owner = declaration === undefined ? undefined : around.get(declaration);
    if (owner !== undefined && owner !== within) functions.get(owner)?.captured.add(variable.text);
  }
  const lineOf = (position: number): number => source.text.slice(0, position).split('\n').length;
  return [...functions].map(([node, { name, captured }]) => {
    const line = lineOf(node.getStart(source));
    return { file, line, name, length: lineOf(node.end) - line + 1, captured: [...captured] };
  });
}

/** The variables that a node assigns. */
function assigned(node: Node): Identifier[] {
  if (isBinaryExpression(node))
    return isAssignmentOperator(node.operatorToken.kind) ? targets(node.left) : [];
  const isUnary = isPrefixUnaryExpression(node) || isPostfixUnaryExpression(node);
  return isUnary && STEPS.includes(node.operator) ? targets(node.operand) : [];
}

const STEPS: readonly SyntaxKind[] = [SyntaxKind.PlusPlusToken, SyntaxKind.MinusMinusToken];

/** The variables of a pattern such as `[a, { b, c: d }]`. */
function targets(pattern: Node): Identifier[] {
  if (isIdentifier(pattern)) return [pattern];
  if (isShorthandPropertyAssignment(pattern)) return targets(pattern.name);
  if (isPropertyAssignment(pattern)) return targets(pattern.initializer);
  const found: Identifier[] = [];
  if (isArrayLiteralExpression(pattern) || isObjectLiteralExpression(pattern)) {
    pattern.forEachChild((child) => void found.push(...targets(child)));
  }
  return found;
}

/** Its own name, or that of what it is assigned to. */
function nameOf(node: Node, parent: Node, source: SourceFile): string {
  if (node.kind === SyntaxKind.Constructor) return 'constructor';
  const [name] = ([node, parent] as readonly { readonly name?: Node }[]).flatMap((one) => one.name ?? []);
  return name?.getText(source) ?? 'a function without a name';
}

/** A regular expression of the program. */
export interface ExpressionFacts {
  readonly file: string;
  /** From 1. */
  readonly line: number;
  /** Null: it is made while the program runs. */
  readonly pattern: RegExp | null;
}

/**
 * Every literal, every `new RegExp` and every `pattern: '…'` of a schema in files of one TypeScript
 * project.
 */
export function expressionsIn(configFile: string, files: readonly string[]): ExpressionFacts[] {
  return eachSource(configFile, files, expressionsOf);
}

function expressionsOf(source: SourceFile, file: string): ExpressionFacts[] {
  const found: ExpressionFacts[] = [];
  const visit = (node: Node): void => {
    const isMade =
      isNewExpression(node) && isIdentifier(node.expression) && node.expression.text === 'RegExp';
    if (isMade || node.kind === SyntaxKind.RegularExpressionLiteral) {
      const line = source.text.slice(0, node.getStart(source)).split('\n').length;
      found.push({ file, line, pattern: isMade ? null : toPattern(node.getText(source)) });
    }
    if (
      isPropertyAssignment(node) &&
      node.name.getText(source) === 'pattern' &&
      isStringLiteral(node.initializer)
    ) {
      const line = source.text.slice(0, node.getStart(source)).split('\n').length;
      found.push({ file, line, pattern: new RegExp(node.initializer.text, 'u') });
    }
    node.forEachChild(visit);
  };
  visit(source);
  return found;
}

/** @param literal as in the source: `/a+/u` */
function toPattern(literal: string): RegExp {
  const end = literal.lastIndexOf('/');
  return new RegExp(literal.slice(1, end), literal.slice(end + 1));
}

/** A file that the project lacks is an error. */
function eachSource<T>(
  configFile: string,
  files: readonly string[],
  of: (source: SourceFile, file: string, project: Project) => readonly T[],
): T[] {
  const api = new API({ cwd: ROOT });
  try {
    const project = api.updateSnapshot({ openProject: configFile }).getProjects()[0];
    if (project === undefined) throw new Error(`${configFile} is no project`);
    return files.flatMap((file) => {
      const source = project.program.getSourceFile(join(ROOT, file));
      if (source === undefined) throw new Error(`${file} is not part of ${configFile}`);
      return of(source, file, project);
    });
  } finally {
    api.close();
  }
}
