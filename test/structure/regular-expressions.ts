import { join } from 'node:path';
import {
  isIdentifier,
  isNewExpression,
  isPropertyAssignment,
  isStringLiteral,
  type Node,
  type SourceFile,
  SyntaxKind,
} from 'typescript/unstable/ast';
import { API } from 'typescript/unstable/sync';
import { ROOT } from './source-file.ts';

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
  const api = new API({ cwd: ROOT });
  try {
    const project = api.updateSnapshot({ openProject: configFile }).getProjects()[0];
    if (project === undefined) throw new Error(`${configFile} is no project`);
    return files.flatMap((file) => {
      const source = project.program.getSourceFile(join(ROOT, file));
      if (source === undefined) throw new Error(`${file} is not part of ${configFile}`);
      return expressionsOf(source, file);
    });
  } finally {
    api.close();
  }
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
