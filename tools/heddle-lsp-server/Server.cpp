//===- Server.cpp - The language server protocol --------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Server.h"

#include "Document.h"
#include "heddle/Pipelines/Compiler.h"

#include "llvm/ADT/StringMap.h"

#include <functional>
#include <type_traits>

using namespace heddle::editor;
using namespace llvm::lsp;
namespace json = llvm::json;

namespace {

class Server {
public:
  explicit Server(JSONTransport &transport);

  int run();

private:
  void initialize(const InitializeParams &, Callback<json::Value> reply);
  void initialized(const InitializedParams &) {}
  void shutdown(const NoParams &, Callback<std::nullptr_t> reply);
  void opened(const DidOpenTextDocumentParams &params);
  void changed(const DidChangeTextDocumentParams &params);
  void closed(const DidCloseTextDocumentParams &params);

  /// Reads the text and publishes what there is to say.
  void update(const URIForFile &uri, std::string text, int64_t version);

  /// What the file says, by `ask`; the default of that if it is not open.
  template <auto ask, typename Params,
            typename Answer =
                std::invoke_result_t<decltype(ask), Document &, const Params &>>
  void answer(const Params &params, Callback<Answer> reply) {
    auto found = documents.find(params.textDocument.uri.uri());
    reply(found == documents.end() ? Answer()
                                   : std::invoke(ask, *found->second, params));
  }

  JSONTransport &transport;
  MessageHandler handler;
  OutgoingNotification<PublishDiagnosticsParams> publish;
  mlir::MLIRContext context;
  llvm::StringMap<std::unique_ptr<Document>> documents;
  bool shutDown = false;
};

mlir::DialectRegistry compilerDialects() {
  mlir::DialectRegistry registry;
  mlir::heddle::registerCompilerDialects(registry);
  return registry;
}

} // namespace

Server::Server(JSONTransport &transport)
    : transport(transport), handler(transport),
      publish(handler.outgoingNotification<PublishDiagnosticsParams>(
          "textDocument/publishDiagnostics")),
      context(compilerDialects(), mlir::MLIRContext::Threading::DISABLED) {
  context.printOpOnDiagnostic(false);
  handler.method("initialize", this, &Server::initialize);
  handler.notification("initialized", this, &Server::initialized);
  handler.method("shutdown", this, &Server::shutdown);
  handler.notification("textDocument/didOpen", this, &Server::opened);
  handler.notification("textDocument/didChange", this, &Server::changed);
  handler.notification("textDocument/didClose", this, &Server::closed);
  handler.method("textDocument/hover", this,
                 &Server::answer<&Document::hover, TextDocumentPositionParams>);
  handler.method(
      "textDocument/definition", this,
      &Server::answer<&Document::definition, TextDocumentPositionParams>);
  handler.method("textDocument/references", this,
                 &Server::answer<&Document::references, ReferenceParams>);
  handler.method("textDocument/documentSymbol", this,
                 &Server::answer<&Document::symbols, DocumentSymbolParams>);
  handler.method("textDocument/completion", this,
                 &Server::answer<&Document::complete, CompletionParams>);
  handler.method("textDocument/codeAction", this,
                 &Server::answer<&Document::actions, CodeActionParams>);
}

int Server::run() {
  if (llvm::Error error = transport.run(handler)) {
    Logger::error("the client: {0}", llvm::toString(std::move(error)));
    return 1;
  }
  return shutDown ? 0 : 1;
}

void Server::initialize(const InitializeParams &, Callback<json::Value> reply) {
  reply(json::Object{
      {"serverInfo", json::Object{{"name", "heddle-lsp-server"},
                                  {"version", HEDDLE_VERSION}}},
      {"capabilities",
       json::Object{{"textDocumentSync",
                     json::Object{{"openClose", true},
                                  {"change", int(TextDocumentSyncKind::Full)}}},
                    {"hoverProvider", true},
                    {"definitionProvider", true},
                    {"referencesProvider", true},
                    {"documentSymbolProvider", true},
                    {"completionProvider",
                     json::Object{{"triggerCharacters", {"%", "(", " ", ","}}}},
                    {"codeActionProvider",
                     json::Object{{"codeActionKinds",
                                   json::Array{CodeAction::kQuickFix}}}}}}});
}

void Server::shutdown(const NoParams &, Callback<std::nullptr_t> reply) {
  shutDown = true;
  reply(nullptr);
}

void Server::update(const URIForFile &uri, std::string text, int64_t version) {
  auto document = std::make_unique<Document>(context, uri, std::move(text));
  PublishDiagnosticsParams params(uri, version);
  params.diagnostics = document->diagnostics();
  documents[uri.uri()] = std::move(document);
  publish(params);
}

void Server::opened(const DidOpenTextDocumentParams &params) {
  update(params.textDocument.uri, params.textDocument.text,
         params.textDocument.version);
}

void Server::changed(const DidChangeTextDocumentParams &params) {
  // Each change is the whole text.
  if (!params.contentChanges.empty())
    update(params.textDocument.uri, params.contentChanges.back().text,
           params.textDocument.version);
}

void Server::closed(const DidCloseTextDocumentParams &params) {
  documents.erase(params.textDocument.uri.uri());
  publish(PublishDiagnosticsParams(params.textDocument.uri, 0));
}

int heddle::editor::serve(JSONTransport &transport) {
  return Server(transport).run();
}
