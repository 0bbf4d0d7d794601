import assert from "node:assert/strict";
import { test } from "node:test";
import { resultText } from "../src/outcome.js";
import { milliseconds, RawJson, rawField, stringify, wholeSeconds } from "../src/wire.js";

test("spans of time are seconds or texts with a unit", () => {
  assert.equal(milliseconds(2), 2000);
  assert.deepEqual((["500ms", "30s", "5m", "2h", "1d"] as const).map(milliseconds), [500, 3e4, 3e5, 7.2e6, 8.64e7]);
  assert.throws(() => milliseconds("soon" as "1s"), /soon is no span of time/);
  assert.equal(wholeSeconds("1500ms"), 2);
});

test("the exact text of a field is found whatever surrounds it", () => {
  const text =
    ' { "a" : {"x":[1,{"result":0}],"s":"}\\"{,"} , "result" : {"n": 9007199254740993 , "e": 1e400 }, "b":true} ';
  assert.equal(rawField(text, "result"), '{"n": 9007199254740993 , "e": 1e400 }');
  assert.equal(rawField(text, "result", "n"), "9007199254740993");
  assert.equal(rawField(text, "a", "s"), '"}\\"{,"');
  assert.equal(rawField(text, "b"), "true");
  assert.equal(rawField(text, "c"), undefined);
  assert.equal(rawField("{}", "c"), undefined);
  assert.equal(rawField("[1]", "c"), undefined);
});

test("results are objects, and others are wrapped", () => {
  const values = [undefined, null, 5, "x", [1], { a: 1 }, new RawJson(' {"n":9007199254740993}'), new RawJson("1")];
  const texts = [
    "{}",
    "{}",
    '{"value":5}',
    '{"value":"x"}',
    '{"value":[1]}',
    '{"a":1}',
    '{"n":9007199254740993}',
    '{"value":1}',
  ];
  assert.deepEqual(values.map(resultText), texts);
});

test("what JSON cannot say is refused", () => {
  assert.throws(() => stringify({ n: Number.NaN }), /NaN cannot be written as JSON/);
  assert.throws(() => stringify(undefined), /undefined cannot be written as JSON/);
  assert.throws(() => new RawJson("{"), SyntaxError);
});
